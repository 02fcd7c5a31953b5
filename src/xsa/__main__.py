"""`python -m xsa`, for launchers that start a module: `torchrun … -m xsa pretrain STUDY RESULT`."""

from xsa.cli import run

run()
