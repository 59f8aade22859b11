"""Measure the layers of lecture 01 on one NVIDIA GPU and record the run as JSON.

    python3 lectures/runs/01_conv_on_gpu.py --out lectures/runs/01_conv_on_gpu.json

It needs PyTorch with CUDA and NumPy, but nothing from this course. It measures the two ceilings of the
roofline (GEMM in float32, TF32 and bfloat16, and a copy much larger than the caches). For each layer, batch
size and precision it measures:

    im2col   torch.nn.functional.unfold, then one batched GEMM
    shifted  k² GEMMs over shifted views of the padded images, accumulated (channels last)
    cudnn    torch.nn.functional.conv2d on channels-first images, cuDNN choosing its algorithm by trial
    cudnn_nhwc  the same on channels-last images

CUDA events time everything from the unpadded images to the output. The result is the median over repeats
after a warm-up. One repeat runs a call often enough to last a few milliseconds, so small inputs stay in the
GPU's L2 cache. Every result is compared with a float64 convolution before it is timed.

The script has not been run on a GPU. On a CPU, its four methods agreed with float64, in float32 only.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F

# name, C, H, W, K, k, stride, padding: the list of lecture 01; a test compares them.
LAYERS = [
    {"name": "AlexNet conv1", "C": 3, "H": 227, "W": 227, "K": 96, "k": 11, "stride": 4, "pad": 0},
    {"name": "AlexNet conv2", "C": 96, "H": 27, "W": 27, "K": 256, "k": 5, "stride": 1, "pad": 2},
    {"name": "ResNet 3x3, 56", "C": 64, "H": 56, "W": 56, "K": 64, "k": 3, "stride": 1, "pad": 1},
    {"name": "ResNet 3x3, 14", "C": 256, "H": 14, "W": 14, "K": 256, "k": 3, "stride": 1, "pad": 1},
    {"name": "ResNet 1x1, 56", "C": 256, "H": 56, "W": 56, "K": 64, "k": 1, "stride": 1, "pad": 0},
]
PRECISIONS = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}
TOLERANCE = {"fp32": 1e-4, "tf32": 1e-2, "bf16": 6e-2}  # maximum error, relative to the largest output


def output_size(layer):
    """Return height and width of the layer's output."""
    s, p, k = layer["stride"], layer["pad"], layer["k"]
    return (layer["H"] + 2 * p - k) // s + 1, (layer["W"] + 2 * p - k) // s + 1


def flops(layer, batch):
    """Return the FLOPs of the direct convolution, counting a multiply-add as two."""
    ho, wo = output_size(layer)
    return 2 * batch * ho * wo * layer["K"] * layer["C"] * layer["k"] ** 2


def set_precision(name):
    """Let float32 matrix products and convolutions use TF32 only if `precision` requests it."""
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    torch.backends.cudnn.allow_tf32 = name == "tf32"


def im2col(layer, x, w):
    """x (N, C, H, W), w (K, C, k, k) -> (N, K, Ho*Wo): unfold to (N, C*k*k, Ho*Wo), then a GEMM per image."""
    columns = F.unfold(x, layer["k"], padding=layer["pad"], stride=layer["stride"])
    return torch.matmul(w.reshape(layer["K"], -1), columns)


def shifted(layer, x, w):
    """x (N, H, W, C), w (k, k, C, K) -> (N, Ho, Wo, K) as k² accumulated GEMMs.

    With stride 1 the padded images form one matrix with N*Hp*Wp rows of C numbers. The shift by (i, j) is the
    same matrix starting at row i*Wp + j. This needs no copy, but computes some rows that are discarded. With
    a larger stride the view has gaps, so PyTorch copies it before multiplying.
    """
    k, s, p, K = layer["k"], layer["stride"], layer["pad"], layer["K"]
    ho, wo = output_size(layer)
    x = F.pad(x, (0, 0, p, p, p, p))
    n, hp, wp, c = x.shape
    if s == 1:
        rows = x.reshape(-1, c)  # (N*Hp*Wp, C)
        out = torch.zeros(rows.shape[0], K, dtype=x.dtype, device=x.device)
        for i in range(k):
            for j in range(k):
                shift = i * wp + j
                length = rows.shape[0] - shift
                out[:length].addmm_(rows[shift:], w[i, j])
        return out.reshape(n, hp, wp, K)[:, :ho, :wo]
    out = torch.zeros(n * ho * wo, K, dtype=x.dtype, device=x.device)
    for i in range(k):
        for j in range(k):
            view = x[:, i : i + s * (ho - 1) + 1 : s, j : j + s * (wo - 1) + 1 : s]
            out.addmm_(view.reshape(-1, c), w[i, j])
    return out.reshape(n, ho, wo, K)


def cudnn(layer, x, w):
    """x (N, C, H, W), w (K, C, k, k) -> (N, K, Ho, Wo), in the memory layout of x."""
    return F.conv2d(x, w, stride=layer["stride"], padding=layer["pad"])


def cases(layer, x, w):
    """Yield (name, call, conversion of its result to (N, K, Ho, Wo)) for each method, in its own layout."""
    n, ho, wo = x.shape[0], *output_size(layer)
    last, w_last = x.permute(0, 2, 3, 1).contiguous(), w.permute(2, 3, 1, 0).contiguous()
    x_cl, w_cl = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
    yield "im2col", lambda: im2col(layer, x, w), lambda y: y.reshape(n, -1, ho, wo)
    yield "shifted", lambda: shifted(layer, last, w_last), lambda y: y.permute(0, 3, 1, 2)
    yield "cudnn", lambda: cudnn(layer, x, w), lambda y: y
    yield "cudnn_nhwc", lambda: cudnn(layer, x_cl, w_cl), lambda y: y


def measure(call, repeats, at_least_ms=4.0):
    """Time one call with CUDA events, in seconds: median, quartiles, minimum of `repeats` after a warm-up."""

    def once(inner):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(inner):
            call()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / inner  # milliseconds per call

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    inner = max(1, min(1000, round(at_least_ms / once(3))))
    once(inner)
    times = [once(inner) / 1e3 for _ in range(repeats)]
    q1, median, q3 = statistics.quantiles(times, n=4)
    spread = {"median_s": median, "q1_s": q1, "q3_s": q3, "min_s": min(times)}
    return spread | {"repeats": repeats, "inner": inner}


def limits(repeats, size, copy_bytes):
    """Measure the roofline's two ceilings, and the time of the smallest possible kernel."""
    found = {}
    for name, dtype in PRECISIONS.items():
        set_precision(name)
        a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
        out = torch.empty_like(a)
        found[name] = {"size": size, **measure(lambda: torch.mm(a, b, out=out), repeats)}  # noqa: B023
        found[name]["flop_per_s"] = 2 * size**3 / found[name]["median_s"]
        print(f"GEMM {name}: {found[name]['flop_per_s'] / 1e12:.1f} TFLOP/s", flush=True)
    source = torch.zeros(copy_bytes // 4, device="cuda")
    target = torch.empty_like(source)
    copy = {"bytes": 2 * source.nbytes, **measure(lambda: target.copy_(source), repeats)}
    copy["bytes_per_s"] = copy["bytes"] / copy["median_s"]
    print(f"copy: {copy['bytes_per_s'] / 1e9:.0f} GB/s (read + written)", flush=True)
    small = torch.zeros(1, device="cuda")
    return {"gemm": found, "copy": copy, "launch": measure(lambda: small.add_(1), repeats)}


def measure_layer(layer, batch, repeats, rng):
    """Return one row per method and precision; raise an error if a result is not the convolution."""
    images = rng.standard_normal((batch, layer["C"], layer["H"], layer["W"]), dtype=np.float32)
    filters = rng.standard_normal((layer["K"], layer["C"], layer["k"], layer["k"]), dtype=np.float32)
    filters /= np.sqrt(layer["C"] * layer["k"] ** 2)
    x, w = torch.from_numpy(images).cuda(), torch.from_numpy(filters).cuda()
    few = min(batch, 2)
    exact = F.conv2d(x[:few].double(), w.double(), stride=layer["stride"], padding=layer["pad"])
    for precision, dtype in PRECISIONS.items():
        set_precision(precision)
        for method, call, as_nchw in cases(layer, x.to(dtype), w.to(dtype)):
            error = ((as_nchw(call())[:few].double() - exact).abs().max() / exact.abs().max()).item()
            if not error < TOLERANCE[precision]:
                what = f"{layer['name']}, batch {batch}, {method} in {precision}"
                raise ArithmeticError(f"{what}: error {error:.1e}, allowed {TOLERANCE[precision]:.0e}")
            row = {"layer": layer["name"], "batch": batch, "method": method, "precision": precision}
            row |= {"flops": flops(layer, batch), "max_rel_error": error, **measure(call, repeats)}
            rate = row["flops"] / row["median_s"] / 1e12
            print(f"{layer['name']:15} N={batch:<4} {precision} {method:10} {rate:8.2f} TFLOP/s", flush=True)
            yield row


def machine():
    """Return GPU, driver and versions."""
    properties = torch.cuda.get_device_properties(0)
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        driver = f"unknown ({error})"
    return {
        "gpu": properties.name,
        "memory_GiB": round(properties.total_memory / 2**30, 1),
        "multiprocessors": properties.multi_processor_count,
        "driver": driver,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the JSON file to write")
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 64, 256], help="default: 8 64 256")
    parser.add_argument("--repeats", type=int, default=25, help="timed repeats of each call (default 25)")
    parser.add_argument("--size", type=int, default=8192, help="rows of the square GEMM (default 8192)")
    parser.add_argument("--copy-bytes", type=int, default=2**30, help="bytes copied (default 1 GiB)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no CUDA GPU here; run this on a GPU node.")
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    run = {
        "what": "Convolution layers of lecture 01 on one GPU",
        "command": "python3 " + shlex.join(sys.argv),
        "code_sha256": hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest(),
        "arguments": {name: str(v) if name == "out" else v for name, v in vars(arguments).items()},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "layers": LAYERS,
        "limits": limits(arguments.repeats, arguments.size, arguments.copy_bytes),
    }
    run["rows"] = [
        row
        for batch in arguments.batches
        for layer in LAYERS
        for row in measure_layer(layer, batch, arguments.repeats, rng)
    ]
    half_written = arguments.out.with_name(arguments.out.name + ".tmp")
    half_written.write_text(json.dumps(run, indent=1) + "\n")
    half_written.rename(arguments.out)
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
