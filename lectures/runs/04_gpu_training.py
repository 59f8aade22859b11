"""Measure training steps on one NVIDIA GPU with JAX and record the run as JSON, in at most 8 minutes.

    python3 lectures/runs/04_gpu_training.py --out lectures/runs/04_gpu_training.json

It needs JAX with CUDA, and Keras with the JAX backend. It does not need TensorFlow, and uses only
cluster/training/models.py of this course. For a machine without a network, install Keras into a folder, copy
it there and set PYTHONPATH=FOLDER:

    pip install --target FOLDER --no-deps keras namex optree absl-py rich markdown-it-py mdurl pygments h5py

    conv      01_conv_on_gpu.py, with PyTorch, in a separate process; writes 01_conv_on_gpu.json next to --out
    ceilings  GEMM in float32, TF32 and bfloat16, and a copy much larger than the caches; with CuPy, if
              installed, also the copy and the float32 GEMM
    rows      images/s of ResNet-50 and LeNet-5, batches of 1 to 256, in the three precisions, with XLA (one
              compiled step) and without (each operation on its own), and the FLOP/s as a share of the peak
    timeline  one compiled step of ResNet-50: [operation, start, duration] in microseconds

A step consists of the forward pass, the backward pass and SGD with momentum, on images that are already on
the device. FLOPs are counted from the layers as three times those of the forward pass, with two per
multiply-add. "left_out" lists measurements for which no time was left. Nothing in the course depends on this
record.

The script has not been run on a GPU. It was tried on a CPU with `--tiny --out FILE`.
"""

import argparse
import datetime
import gzip
import hashlib
import importlib.util
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch and CuPy need memory, too

import jax
import jax.numpy as jnp
import keras
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parents[1] / "cluster" / "training" / "models.py"
BATCHES = [256, 64, 1, 16, 4, 128, 32]  # the most informative first, in case time runs out
WITHOUT_XLA = [64, 1]  # batch sizes; Python starts each operation, so a step takes long
# JAX's precision of float32 products, and Keras's dtype policy.
PRECISIONS = {
    "fp32": ("highest", "float32"),
    "tf32": ("tensorfloat32", "float32"),
    "bf16": ("default", "mixed_bfloat16"),
}
# FLOP/s without sparsity, NVIDIA's data sheet of the H100 SXM: https://www.nvidia.com/en-us/data-center/h100/
PEAKS = {"H100": {"fp32": 67e12, "tf32": 494.7e12, "bf16": 989.4e12}}


def course_models():
    """Import cluster/training/models.py without its package."""
    spec = importlib.util.spec_from_file_location("course_models", MODELS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def networks(tiny):
    """Return {name: (function that builds it, shape of an image, number of classes)}."""
    size, classes = (32, 10) if tiny else (224, 1000)

    def resnet():
        return keras.applications.ResNet50(weights=None, input_shape=(size, size, 3), classes=classes,
                                           classifier_activation=None)  # fmt: skip

    return {
        "LeNet-5": (course_models().lenet5, (28, 28, 1), 10),
        "ResNet-50": (resnet, (size, size, 3), classes),
    }


def multiply_adds(model):
    """Count the multiply-adds of convolutions and dense layers in the forward pass of one image."""
    total = 0
    for layer in model.layers:
        if isinstance(layer, keras.layers.Conv2D):  # kernel (k, k, C, K), output (N, H, W, K)
            total += int(np.prod(layer.kernel.shape)) * int(np.prod(layer.output.shape[1:3]))
        elif isinstance(layer, keras.layers.Dense):
            total += int(np.prod(layer.kernel.shape))
    return total


def training_step(model):
    """Return (a function from (state, images, labels) to (state, loss), the initial state)."""

    def loss_of(weights, other, images, labels):
        logits, other = model.stateless_call(weights, other, images, training=True)
        logarithms = jax.nn.log_softmax(logits.astype("float32"))
        return -jnp.take_along_axis(logarithms, labels[:, None], 1).mean(), other

    def step(state, images, labels):
        weights, other, velocities = state
        (loss, other), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights, other, images, labels)
        velocities = [0.9 * v + g for v, g in zip(velocities, gradients, strict=True)]
        weights = [w - 1e-3 * v for w, v in zip(weights, velocities, strict=True)]
        return (weights, other, velocities), loss

    weights, other = (
        [v.value for v in kind] for kind in (model.trainable_variables, model.non_trainable_variables)
    )
    return step, (weights, other, [jnp.zeros_like(w) for w in weights])


def measure(call, repeats, at_least=0.02):
    """Time one call, in seconds: median, quartiles and minimum; `call` returns once the device has finished.

    Short calls are repeated more often, but not bundled, because the time to start them is part of a step.
    """
    call()
    begin = time.perf_counter()
    call()
    once = time.perf_counter() - begin
    repeats = (
        max(3, min(10 * repeats, round(repeats * at_least / max(once, 1e-6)))) if once < at_least else repeats
    )
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    q1, median, q3 = statistics.quantiles(times, n=4)
    return {"median_s": median, "q1_s": q1, "q3_s": q3, "min_s": min(times), "repeats": repeats}


def ceilings(repeats, size, copy_bytes):
    """Measure the roofline's two ceilings with JAX and, if it is installed, with CuPy."""
    found = {"gemm": {}}
    for name, (precision, _) in PRECISIONS.items():
        dtype = "bfloat16" if name == "bf16" else "float32"
        a, b = (jax.random.normal(jax.random.key(i), (size, size), dtype) for i in range(2))
        product = jax.jit(lambda a, b, p=precision: jnp.matmul(a, b, precision=p))
        row = {"size": size, **measure(lambda: product(a, b).block_until_ready(), repeats)}  # noqa: B023
        found["gemm"][name] = row | {"flop_per_s": 2 * size**3 / row["median_s"]}
        print(f"GEMM {name}: {found['gemm'][name]['flop_per_s'] / 1e12:.2f} TFLOP/s", flush=True)
    x = jnp.zeros(copy_bytes // 4)
    copy = jax.jit(lambda x: x + 1)  # XLA would optimise a bare copy away
    row = {"bytes": 2 * x.nbytes, **measure(lambda: copy(x).block_until_ready(), repeats)}
    found["copy"] = row | {"bytes_per_s": row["bytes"] / row["median_s"]}
    print(f"copy: {found['copy']['bytes_per_s'] / 1e9:.1f} GB/s (read + written)", flush=True)
    try:
        import cupy

        a, b = (cupy.random.standard_normal((size, size), dtype=cupy.float32) for _ in range(2))
        x, y = (cupy.zeros(copy_bytes // 4, cupy.float32) for _ in range(2))
    except Exception as error:  # not installed, or no device
        return found | {"cupy": f"not measured: {type(error).__name__}: {error}"}

    def finished(action):
        action()
        cupy.cuda.Device().synchronize()

    gemm = measure(lambda: finished(lambda: cupy.matmul(a, b)), repeats)
    copied = measure(lambda: finished(lambda: cupy.copyto(y, x)), repeats)
    return found | {"cupy": {
        "version": cupy.__version__,
        "gemm": gemm | {"flop_per_s": 2 * size**3 / gemm["median_s"]},
        "copy": copied | {"bytes_per_s": 2 * x.nbytes / copied["median_s"]},
    }}  # fmt: skip


def measure_row(network, case, batch, precision, xla, arguments, peaks):
    """Measure a network's training step: images/s, and FLOP/s as a fraction of the peaks."""
    build, shape, classes = case
    matmul, policy = PRECISIONS[precision]
    keras.utils.clear_session()  # also resets the policy
    keras.config.set_dtype_policy(policy)
    model = build()
    step, state = training_step(model)
    images = jax.random.normal(jax.random.key(0), (batch, *shape))
    labels = jnp.arange(batch) % classes
    compile_s = 0.0
    with jax.default_matmul_precision(matmul):
        if xla:
            begin = time.perf_counter()
            step = jax.jit(step).lower(state, images, labels).compile()
            compile_s = time.perf_counter() - begin
        state, loss = step(state, images, labels)
        if not jnp.isfinite(loss):
            raise ArithmeticError(f"{network}, batch {batch}, {precision}: the loss is {loss}")
        repeats = arguments.repeats if xla else 3
        times = measure(lambda: jax.block_until_ready(step(state, images, labels)), repeats)
    flops = 6 * batch * multiply_adds(model)
    rate = flops / times["median_s"]
    row = {"network": network, "batch": batch, "precision": precision, "xla": xla, "compile_s": compile_s}
    row |= {"compute_dtype": model.layers[-1].compute_dtype}
    row |= {"images_per_s": batch / times["median_s"], "flops": flops, "loss": float(loss), **times}
    row["mfu"] = {name: rate / peak[precision] for name, peak in peaks.items()}
    shares = ", ".join(f"{share:.1%} of {name}" for name, share in row["mfu"].items())
    how = "XLA" if xla else "operation by operation"
    print(
        f"{network:9} N={batch:<3} {precision} {how}: {row['images_per_s']:.0f} images/s, {shares}",
        flush=True,
    )
    return row


def timeline(case, batch, most=5000):
    """Record one compiled step: the operations on the device, or on this host's threads without a GPU."""
    build, shape, classes = case
    keras.utils.clear_session()
    keras.config.set_dtype_policy("float32")
    step, state = training_step(build())
    images, labels = jnp.ones((batch, *shape)), jnp.arange(batch) % classes
    step = jax.jit(step).lower(state, images, labels).compile()
    jax.block_until_ready(step(state, images, labels))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            jax.block_until_ready(step(state, images, labels))
        written = sorted(pathlib.Path(folder).rglob("perfetto_trace.json.gz"))
        trace = json.loads(gzip.decompress(written[-1].read_bytes()))
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    names = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    device = {pid for pid, name in names.items() if "GPU" in name}
    spans = [e for e in events if e.get("ph") == "X" and (e["pid"] in device if device else True)]
    first = min((e["ts"] for e in spans), default=0)
    rows = sorted([e["name"], round(e["ts"] - first, 3), round(e.get("dur", 0), 3)] for e in spans)
    rows.sort(key=lambda row: row[1])
    where = sorted(names[pid] for pid in device) or ["host threads: no GPU in the trace"]
    return {"batch": batch, "precision": "JAX's default for float32", "where": where,
            "events": rows[:most], "events_in_all": len(rows)}  # fmt: skip


def machine():
    """Return device, driver and versions."""
    query = [
        "nvidia-smi",
        "--query-gpu=name,driver_version,memory.total,clocks.max.sm",
        "--format=csv,noheader",
    ]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        gpu = f"none ({error})"
    return {
        "device": jax.devices()[0].device_kind,
        "platform": jax.devices()[0].platform,
        "nvidia_smi": gpu,
        "host": platform.platform(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def conv(out, limit):
    """Run 01_conv_on_gpu.py, which needs PyTorch with CUDA, next to this record; return how it ended."""
    command = [
        sys.executable,
        str(HERE / "01_conv_on_gpu.py"),
        "--out",
        str(out.with_name("01_conv_on_gpu.json")),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"stopped after {limit:.0f} s"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return f"exit code {done.returncode}: {lines[-1] if lines else ''}"


def failure(error):
    """Return an exception in the form stored in the record."""
    return f"{type(error).__name__}: {str(error)[:300]}"


def write(out, run):
    """Write the record atomically."""
    half_written = out.with_name(out.name + ".tmp")
    half_written.write_text(json.dumps(run, indent=1) + "\n")
    half_written.rename(out)


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the JSON file to write")
    parser.add_argument("--minutes", type=float, default=8, help="start nothing after these (default 8)")
    parser.add_argument(
        "--repeats", type=int, default=15, help="timed repeats of a compiled step (default 15)"
    )
    parser.add_argument("--size", type=int, default=8192, help="rows of the square GEMM (default 8192)")
    parser.add_argument("--copy-bytes", type=int, default=2**30, help="bytes copied (default 1 GiB)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script on a CPU")
    parser.add_argument("--no-conv", action="store_true", help="leave out 01_conv_on_gpu.py")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.size, arguments.copy_bytes, arguments.repeats = 256, 2**22, 3
    elif jax.devices()[0].platform != "gpu":
        sys.exit("JAX sees no GPU here. Run this on a GPU node, or with --tiny to try the script.")
    arguments.out = arguments.out.resolve()
    end = time.monotonic() + 60 * arguments.minutes
    run = {
        "what": "Training steps on one GPU",
        "command": "python3 " + shlex.join(sys.argv),
        "code_sha256": hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest(),
        "arguments": {name: str(v) if name == "out" else v for name, v in vars(arguments).items()},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
    }
    run["conv"] = "left out" if arguments.no_conv else conv(arguments.out, 30 * arguments.minutes)
    print(f"01_conv_on_gpu.py: {run['conv']}", flush=True)
    run["ceilings"] = ceilings(arguments.repeats, arguments.size, arguments.copy_bytes)
    peaks = {"the GEMM": {name: row["flop_per_s"] for name, row in run["ceilings"]["gemm"].items()}}
    peaks |= {f"{gpu}'s data sheet": peak for gpu, peak in PEAKS.items() if gpu in run["machine"]["device"]}
    run |= {"peaks": peaks, "rows": [], "left_out": []}
    cases = networks(arguments.tiny)
    write(arguments.out, run)
    try:
        shown = ("LeNet-5", 2) if arguments.tiny else ("ResNet-50", 64)
        run["timeline"] = {"network": shown[0]} | timeline(cases[shown[0]], shown[1])
    except Exception as error:  # no profiler for this device; the rows do not need it
        run["timeline"] = {"error": failure(error)}
    with_xla, without = ([2], [1]) if arguments.tiny else (BATCHES, WITHOUT_XLA)
    plan = [(with_xla[:2], True), (without, False), (with_xla[2:], True)]
    todo = [
        (batch, name, precision, xla)
        for batches, xla in plan
        for batch in batches
        for name in cases
        for precision in PRECISIONS
    ]
    for batch, name, precision, xla in todo:
        if time.monotonic() > end:
            run["left_out"].append([name, batch, precision, xla])
            continue
        try:
            row = measure_row(name, cases[name], batch, precision, xla, arguments, peaks)
        except Exception as error:  # out of memory, or an operation that does not support this precision
            row = {"network": name, "batch": batch, "precision": precision, "xla": xla}
            row["error"] = failure(error)
            print(row, flush=True)
        run["rows"].append(row)
        write(arguments.out, run)
    write(arguments.out, run)
    print(f"wrote {arguments.out}; left out: {len(run['left_out'])} of {len(todo)}")


if __name__ == "__main__":
    main()
