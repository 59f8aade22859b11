#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=2048M
#SBATCH --time=00:10:00
#SBATCH --output=job.log
#SBATCH --open-mode=append
#SBATCH --export=ALL
#SBATCH --requeue
export OMP_NUM_THREADS=1
export OPENBLAS_NUM_THREADS=1
export MKL_NUM_THREADS=1
export TF_NUM_INTRAOP_THREADS=1
export TF_NUM_INTEROP_THREADS=1
export TF_CPP_MIN_LOG_LEVEL=3
export PYTHONHASHSEED=0
export CLUSTER_LAUNCHER=slurm
export SRUN_CPUS_PER_TASK=1   # from Slurm 22.05 on, srun does not take it from sbatch
export CLUSTER_ATTEMPT=$((1 + ${SLURM_RESTART_COUNT:-0}))
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
  '/opt/course env/bin/python' -P -m cluster.jobs.rank.on_restart '/home/a student/runs/it'"'"'s $(here)/train-0123456789ab' || exit
fi
srun --mpi=none --kill-on-bad-exit=1 '/opt/course env/bin/python' -P -u -m cluster.jobs.rank.main '/home/a student/runs/it'"'"'s $(here)/train-0123456789ab'
code=$?
'/opt/course env/bin/python' -P -m cluster.jobs.rank.on_end '/home/a student/runs/it'"'"'s $(here)/train-0123456789ab'
exit $code
