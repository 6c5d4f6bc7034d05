#!/usr/bin/env python3
"""What of the driver's own memory a kernel could reach on this machine, and whether it is in the same place in every
process: addresses that repeat can be written into a kernel's source.

    tests/gpu/probe.py

Prints how long the driver takes to start, whether the device sees the host's memory, whether memory can be mapped for
reading alone, where allocations, variables and code lie, and at which addresses events keep their times, as far as this
process can find them. Needs a GPU and nothing but Python 3; some ten seconds. Fails where a call does.
"""

import ctypes
import json
import re
import struct
import subprocess
import sys
import time

PROCESSES = 3
PAGE = 2 << 20
ATTRIBUTES = {
    "device sees pageable memory (HMM)": 88,
    "concurrent managed access": 89,
    "registers host memory": 99,
    "uses the host's page tables": 100,
    "virtual memory management": 102,
}
# Writes where a variable, a function's code, and the windows of shared and local memory are.
KERNEL = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .global .align 8 .u64 variable[64];
.func (.reg .b64 result) helper(.reg .b64 given) { add.u64 result, given, 1; ret; }
.visible .entry look(.param .u64 out) {
    .reg .b64 %rd<8>;
    .shared .align 8 .b8 shared_bytes[8];
    .local .align 8 .b8 local_bytes[8];
    ld.param.u64 %rd0, [out];
    cvta.to.global.u64 %rd1, %rd0;
    mov.u64 %rd2, variable;
    cvta.global.u64 %rd2, %rd2;
    st.global.u64 [%rd1], %rd2;
    mov.u64 %rd3, helper;
    st.global.u64 [%rd1+8], %rd3;
    mov.u64 %rd4, shared_bytes;
    cvta.shared.u64 %rd4, %rd4;
    st.global.u64 [%rd1+16], %rd4;
    mov.u64 %rd5, local_bytes;
    cvta.local.u64 %rd5, %rd5;
    st.global.u64 [%rd1+24], %rd5;
    ret;
}
"""


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location)]
    _fields_ += [("meta", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


def call(driver, name, *arguments):
    code = getattr(driver, name)(*arguments)
    if code != 0:
        sys.exit(f"{name} failed with {code}")


def size(number):
    return ctypes.c_size_t(number)


def allocate(driver, number):
    at = ctypes.c_uint64()
    call(driver, "cuMemAlloc_v2", ctypes.byref(at), size(number))
    return at.value


def mapped(driver):
    """Maps a page where the driver likes; returns where, and which accesses it grants."""
    at, handle = ctypes.c_uint64(), ctypes.c_uint64()
    properties = Properties(1, 0, Location(1, 0), None)
    zero = ctypes.c_uint64(0)
    call(driver, "cuMemAddressReserve", ctypes.byref(at), size(PAGE), size(PAGE), zero, zero)
    call(driver, "cuMemCreate", ctypes.byref(handle), size(PAGE), ctypes.byref(properties), zero)
    call(driver, "cuMemMap", at, size(PAGE), size(0), handle, zero)
    grants = {}
    for words, flags in (("reading and writing", 3), ("reading alone", 1), ("nothing", 0)):
        access = Access(Location(1, 0), flags)
        code = driver.cuMemSetAccess(at, size(PAGE), ctypes.byref(access), size(1))
        grants[words] = "works" if code == 0 else f"refused ({code})"
    return at.value, grants


def look(driver):
    """Returns what a kernel sees of its own addresses."""
    module, function, out = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(allocate(driver, 32))
    call(driver, "cuModuleLoadData", ctypes.byref(module), KERNEL)
    call(driver, "cuModuleGetFunction", ctypes.byref(function), module, b"look")
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(out), ctypes.c_void_p))
    call(driver, "cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
    call(driver, "cuCtxSynchronize")
    seen = (ctypes.c_uint64 * 4)()
    call(driver, "cuMemcpyDtoH_v2", seen, out, size(32))
    return dict(zip(("a variable", "code", "shared memory's window", "local memory's window"), seen))


def regions():
    """Returns what the driver has mapped into this process and can be read."""
    found = []
    for line in open("/proc/self/maps"):
        start, end, rights, name = re.match(r"(\w+)-(\w+) (\S+) \S+ \S+ \S+\s*(.*)", line).groups()
        if "nvidia" in name and rights.startswith("rw"):
            found.append((int(start, 16), int(end, 16)))
    return found


def times_of_events(driver):
    """Returns where words change between two recordings that look like times of this moment."""
    stream, start, stop = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call(driver, "cuStreamCreate", ctypes.byref(stream), 1)
    for event in (start, stop):
        call(driver, "cuEventCreate", ctypes.byref(event), 0)
    words = 1 << 20
    target = ctypes.c_uint64(allocate(driver, 4 * words))

    def record():
        call(driver, "cuEventRecord", start, stream)
        call(driver, "cuMemsetD32Async", target, 7, size(words), stream)
        call(driver, "cuEventRecord", stop, stream)
        call(driver, "cuStreamSynchronize", stream)
        readable = regions()
        return {at: ctypes.string_at(at, min(end - at, 64 << 20)) for at, end in readable}

    record()
    before, after, now = record(), record(), time.time_ns()
    found = []
    for at in before.keys() & after.keys():
        for offset in range(0, min(len(before[at]), len(after[at])) - 7, 8):
            if before[at][offset : offset + 8] != after[at][offset : offset + 8]:
                value = struct.unpack_from("<Q", after[at], offset)[0]
                if abs(value - now) < 10_000_000_000:
                    found.append(at + offset)
    return sorted(found)


def once():
    """Looks in this process; prints JSON."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        sys.exit(f"there is no CUDA driver on this machine: {error}")
    device, context, version = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    began = time.perf_counter()
    call(driver, "cuInit", 0)
    started = time.perf_counter()
    call(driver, "cuDeviceGet", ctypes.byref(device), 0)
    call(driver, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    opened = time.perf_counter()
    call(driver, "cuCtxSetCurrent", context)
    call(driver, "cuDriverGetVersion", ctypes.byref(version))
    facts = {"driver": version.value}
    for name, number in ATTRIBUTES.items():
        value = ctypes.c_int(-1)
        call(driver, "cuDeviceGetAttribute", ctypes.byref(value), number, device)
        facts[name] = value.value
    places = {"a small allocation": allocate(driver, 512), "a large allocation": allocate(driver, 4 << 20)}
    places["mapped memory"], grants = mapped(driver)
    facts |= {f"mapping for {words}": said for words, said in grants.items()}
    places |= look(driver)
    places |= {f"time of an event ({idx})": at for idx, at in enumerate(times_of_events(driver)[:8])}
    seconds = {"starting the driver": started - began, "opening a context": opened - started}
    json.dump({"facts": facts, "places": places, "seconds": seconds}, sys.stdout)


def main():
    if sys.argv[1:] == ["--once"]:
        return once()
    looked = []
    for _ in range(PROCESSES):
        ran = subprocess.run([sys.executable, __file__, "--once"], capture_output=True, text=True)
        if ran.returncode != 0:
            sys.exit(ran.stderr.strip())
        looked.append(json.loads(ran.stdout))
    for name, value in looked[0]["facts"].items():
        print(f"{name}: {value}")
    for name in looked[0]["seconds"]:
        print(f"{name}: {', '.join(format(one['seconds'][name], '.3f') for one in looked)} s")
    for name in sorted({name for one in looked for name in one["places"]}):
        places = [one["places"].get(name) for one in looked]
        is_same = "the same in every process" if len(set(places)) == 1 else "differs"
        print(f"{name}: {', '.join('not found' if at is None else hex(at) for at in places)} ({is_same})")
    if not any(name.startswith("time of an event") for name in looked[0]["places"]):
        print("times of events: not in memory that this process can read")


if __name__ == "__main__":
    main()
