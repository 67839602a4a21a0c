"""A byte-level tokenizer without files from the network."""

import pytest

from tests.models.tiny import write_tokenizer


@pytest.fixture(scope="session")
def byte_tokenizer(tmp_path_factory):
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("byte-level")
    write_tokenizer(folder)
    return PreTrainedTokenizerFast.from_pretrained(folder)
