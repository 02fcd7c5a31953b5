"""Files of datasets on the Hugging Face hub: their address, the token, and the hub client's cache."""

from __future__ import annotations

import os
from pathlib import Path

from huggingface_hub import constants, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import build_hf_headers

from xsa.data.download import Published
from xsa.store.errors import UserError


def hub_file(dataset: str, revision: str, file: str) -> Published:
    """A file of a dataset at a revision. Honours HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and the cache under HF_HOME.

    Raises UserError for a dataset that is not `owner/name`.
    """
    endpoint = os.environ.get("HF_ENDPOINT") or None
    try:
        url = hf_hub_url(dataset, file, repo_type="dataset", revision=revision, endpoint=endpoint)
        cached = try_to_load_from_cache(dataset, file, revision=revision, repo_type="dataset")
    except HFValidationError as error:
        raise UserError(f"data.dataset = {dataset!r} is no name on the hub ({error}); write owner/name") from None
    token = build_hf_headers().get("authorization")
    offline = constants.is_offline_mode() if hasattr(constants, "is_offline_mode") else constants.HF_HUB_OFFLINE
    return Published(
        name=f"{dataset}@{revision}/{file}",
        url=url,
        headers={"Authorization": token} if token else {},
        copy=Path(cached) if isinstance(cached, str) else None,
        offline="HF_HUB_OFFLINE is set" if offline else None,
        bring=f"fill the cache there with `hf download {dataset} {file} --repo-type dataset --revision {revision}` and bring HF_HOME",
    )
