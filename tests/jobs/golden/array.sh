#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=2048M
#SBATCH --time=00:10:00
#SBATCH --array=0-2,5,7-8%4
#SBATCH --output=%a/job.log
#SBATCH --open-mode=append
#SBATCH --export=ALL
#SBATCH --no-requeue
#SBATCH --partition=short
exec bash '/home/a student/runs/it'"'"'s $(here)/train-0123456789ab/round-2'/"$SLURM_ARRAY_TASK_ID"/job.sh
