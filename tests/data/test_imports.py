"""The data stages run where there is no torch, and start quickly."""

from __future__ import annotations

import subprocess
import sys


def test_no_module_of_data_imports_torch():
    code = (
        "import importlib, pkgutil, sys, xsa.data\n"
        "for module in pkgutil.walk_packages(xsa.data.__path__, 'xsa.data.'): importlib.import_module(module.name)\n"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
