"""What differs for baselines on a CUDA device: tensors live there, and the device's own clock counts.

A script's `run(state, inputs)` takes tensors of PyTorch on the device and returns the outputs by name.
Launches are captured into a graph, which is replayed once to settle and once, with the cache flushed,
between two events: as the harness does with kernels.
"""

FLUSH_FACTOR = 2
# About two milliseconds.
QUEUEING_CYCLES = 4_000_000


def give_memory_back():
    """Returns what PyTorch keeps of the device's memory for later, so that others can have it."""
    import torch

    torch.cuda.empty_cache()


class Device:
    def __init__(self):
        import torch

        self.torch = torch
        self.stream = torch.cuda.Stream()
        properties = torch.cuda.get_device_properties(0)
        cache_bytes = getattr(properties, "L2_cache_size", 64 << 20)
        self.flush = torch.empty(FLUSH_FACTOR * cache_bytes // 4, dtype=torch.int32, device="cuda")
        self.cases = []
        self.warm = set()

    def add(self, inputs, outputs, plans):
        """Copies a case's inputs to the device; keeps the host's views of its outputs."""
        tensors = {name: self.tensor(view, plans[name]["element"]) for name, view in inputs.items()}
        self.cases.append((tensors, outputs))

    def tensor(self, view, element):
        torch = self.torch
        # NumPy knows no bfloat16: 16-bit types travel as their bits.
        copied = torch.from_numpy(view.copy()).cuda()
        return copied.view(torch.bfloat16) if element == "bf16" else copied

    def launch(self, run, state, cases):
        torch = self.torch
        with torch.cuda.stream(self.stream):
            if not self.warm:
                # Libraries choose their algorithms on the first calls.
                for _ in range(3):
                    run(state, self.cases[cases[0]][0])
                self.warm.add(True)
            self.stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                results = [run(state, self.cases[case][0]) for case in cases]
            graph.replay()
            seconds = self.read_clock(graph)
            for case, result in zip(cases, results):
                for name, view in self.cases[case][1].items():
                    tensor = result[name].contiguous()
                    if tensor.dtype == torch.bfloat16:
                        tensor = tensor.view(torch.int16)
                    view[...] = tensor.cpu().numpy().view(view.dtype).reshape(view.shape)
        return seconds

    def copy(self, count):
        """Times a copy of this many bytes on the device, under the same clock as launches."""
        torch = self.torch
        with torch.cuda.stream(self.stream):
            source, target = (torch.empty(count, dtype=torch.uint8, device="cuda") for _ in range(2))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                target.copy_(source)
            return self.read_clock(graph)

    def read_clock(self, graph):
        """Replays a graph between two events, with the cache flushed; returns the seconds between them."""
        torch = self.torch
        self.stream.synchronize()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # The device waits until everything below is in its queue: an interpreter that has just been
        # woken is slow, and its pauses would count.
        torch.cuda._sleep(QUEUEING_CYCLES)
        self.flush.fill_(1)
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1e-3
