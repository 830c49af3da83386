"""Simulate a slow disk: add a delay to each fdatasync of PostgreSQL's WAL."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int fdatasync(int fd) {
  static int (*real)(int);
  if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
  int result = real(fd);
  struct timespec pause = {0, atol(getenv("SLOW_DISK_NS"))};
  nanosleep(&pause, 0);
  return result;
}
"""


@contextlib.contextmanager
def slow_disk(milliseconds: float) -> Generator[None]:
    """Add this delay to each fdatasync of processes started in the block. 0 adds none."""
    if not milliseconds:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        library = Path(folder) / "slow_disk.so"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-x", "c", "-o", str(library), "-", "-ldl"],
            input=SOURCE.encode(),
            check=True,
        )
        os.environ["SLOW_DISK_NS"] = str(int(milliseconds * 1e6))
        os.environ["LD_PRELOAD"] = str(library)
        try:
            yield
        finally:
            del os.environ["LD_PRELOAD"]
            del os.environ["SLOW_DISK_NS"]
