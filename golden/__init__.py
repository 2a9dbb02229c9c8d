"""Golden cases, judged sets, robustness probes and benchmarks: what every change is held to."""
