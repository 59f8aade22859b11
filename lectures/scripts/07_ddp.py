"""The same in PyTorch: torchrun --nproc-per-node=2 07_ddp.py"""

import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision.datasets import FashionMNIST
from torchvision.transforms import ToTensor

EPOCHS, BATCH, LR, WARMUP, ACCUMULATE = 3, 32, 0.02, 50, 1

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, p, local = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
device = torch.device(f"cuda:{local}" if torch.cuda.is_available() else "cpu")

net = nn.Sequential(
    *(nn.Conv2d(1, 16, 3, 2, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
    *(nn.Conv2d(16, 32, 3, 2, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
    *(nn.Flatten(), nn.Linear(32 * 6 * 6, 10)),
)
if device.type == "cuda":  # SyncBatchNorm is for GPUs only
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
ddp = DistributedDataParallel(net.to(device))  # broadcasts rank 0's weights
optimizer = torch.optim.SGD(ddp.parameters(), LR, momentum=0.9)

train = FashionMNIST("data", train=True, transform=ToTensor(), download=rank == 0)
dist.barrier()
sampler = DistributedSampler(train, seed=7, drop_last=True)  # one shuffle, p shards
loader = DataLoader(train, BATCH, sampler=sampler, drop_last=True)
test = FashionMNIST("data", train=False, transform=ToTensor())
mine = DataLoader(torch.utils.data.Subset(test, range(rank, len(test), p)), BATCH)

done = 0
for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)  # without this line each epoch has the same order
    ddp.train()
    for i, (x, y) in enumerate(loader):
        optimizer.param_groups[0]["lr"] = LR * (1 + (p - 1) * min(1, done / WARMUP))
        last = (i + 1) % ACCUMULATE == 0
        with contextlib.nullcontext() if last else ddp.no_sync():
            loss = nn.functional.cross_entropy(ddp(x.to(device)), y.to(device))
            (loss / ACCUMULATE).backward()  # each bucket's all-reduce starts in here
        if last:
            optimizer.step()
            optimizer.zero_grad()
            done += 1
    net.eval()
    sums = torch.zeros(2, device=device)
    with torch.no_grad():
        for x, y in mine:
            hits = (net(x.to(device)).argmax(1) == y.to(device)).sum()
            sums += torch.stack([hits, torch.tensor(len(y), device=device)])
    dist.all_reduce(sums)  # a sum of counts, on all ranks
    if rank == 0:
        print(f"epoch {epoch}: accuracy {(sums[0] / sums[1]).item():.3f}", flush=True)
        state = {"net": net.state_dict(), "sgd": optimizer.state_dict()}
        torch.save(state | {"epoch": epoch}, "unfinished.pt")
        os.replace("unfinished.pt", "checkpoint.pt")
dist.destroy_process_group()
