#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=00:10:00
#SBATCH --output=job.log
#SBATCH --open-mode=append
#SBATCH --export=ALL
#SBATCH --no-requeue
#SBATCH --gpus-per-node=4
#SBATCH --partition=gpu_a100
trap 'echo "A line of the site file failed (exit code $?): $(sed -n "${LINENO}p" "$0")" >&2' ERR
module purge
module load 2024
trap - ERR
export OMP_NUM_THREADS=8
export OPENBLAS_NUM_THREADS=8
export MKL_NUM_THREADS=8
export TF_NUM_INTRAOP_THREADS=8
export TF_NUM_INTEROP_THREADS=1
export TF_CPP_MIN_LOG_LEVEL=3
export PYTHONHASHSEED=0
export CLUSTER_LAUNCHER=slurm
export SRUN_CPUS_PER_TASK=8   # from Slurm 22.05 on, srun does not take it from sbatch
srun --mpi=none --kill-on-bad-exit=1 /opt/env/python -P -u -m cluster.jobs.rank.main /runs/train-0123456789ab
code=$?
/opt/env/python -P -m cluster.jobs.rank.on_end /runs/train-0123456789ab
exit $code
