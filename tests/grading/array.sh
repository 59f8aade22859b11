#!/bin/bash
#SBATCH --job-name=grade-abc-01
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=4096M
#SBATCH --time=00:08:00
#SBATCH --array=0-1%8
#SBATCH --output='/srv/a 50%%/part-%a.log'
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --partition=short
#SBATCH --export=NONE
#SBATCH --account=grading
umask 077
export PYTHONPATH=ROOT
exec '/opt/a python' -P -m cluster.staff.grading.worker '/srv/a 50%' "$SLURM_ARRAY_TASK_ID"
