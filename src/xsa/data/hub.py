"""Files of datasets on the Hugging Face hub: their address, the token, and the hub client's cache; and files elsewhere."""

from __future__ import annotations

import os
import re
from pathlib import Path

from huggingface_hub import constants, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import build_hf_headers

from xsa.data.datalock import DataLock
from xsa.data.download import Published
from xsa.store.errors import UserError

_COMMIT = re.compile("[0-9a-f]{40}")


def hub_file(dataset: str, revision: str, file: str, lock: DataLock) -> Published:
    """A file of a dataset at a revision. Honours HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and the cache under HF_HOME.

    A branch stands for the commit that the lock has of it. Raises UserError for a dataset that is not `owner/name`.
    """
    endpoint = os.environ.get("HF_ENDPOINT") or None
    branch = None if _COMMIT.fullmatch(revision) else f"{dataset}@{revision}"
    commit = lock.commit(branch) if branch else revision
    at = commit or revision
    try:
        url = hf_hub_url(dataset, file, repo_type="dataset", revision=at, endpoint=endpoint)
        cached = try_to_load_from_cache(dataset, file, revision=at, repo_type="dataset")
    except HFValidationError as error:
        raise UserError(f"data.dataset = {dataset!r} is no name on the hub ({error}); write owner/name") from None
    token = build_hf_headers().get("authorization")
    return Published(
        name=f"{dataset}@{revision}/{file}",
        url=url,
        headers={"Authorization": token} if token else {},
        branch=None if commit else branch,
        copy=Path(cached) if isinstance(cached, str) else None,
        offline=_offline(),
        bring=f"fill the cache there with `hf download {dataset} {file} --repo-type dataset --revision {at}` and bring HF_HOME",
    )


def other_file(name: str, url: str) -> Published:
    """A file of another host, under the same rules: no token is shown there, and HF_HUB_OFFLINE means it too."""
    return Published(name, url, offline=_offline())


def _offline() -> str | None:
    on = constants.is_offline_mode() if hasattr(constants, "is_offline_mode") else constants.HF_HUB_OFFLINE
    return "HF_HUB_OFFLINE is set" if on else None
