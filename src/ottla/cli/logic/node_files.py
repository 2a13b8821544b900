"""Directories and listeners of a node's properties file, for commands that take such a file."""

from __future__ import annotations

from ottla.cli.failures import Failure
from ottla.host.references import own_config
from ottla.model.config import BrokerConfig, ConfigError, decode_properties, parse_properties
from ottla.model.ids import Uuid
from ottla.model.ports import Files
from ottla.storage.errors import DirectoryRefused
from ottla.storage.meta_properties import read_meta_properties
from ottla.wire.peers import Endpoint

__all__ = ["controller_listeners", "directories", "metadata_directory", "metadata_directory_id", "read_node_file"]


def read_node_file(path: str) -> BrokerConfig:
    with open(path, "rb") as file:
        try:
            return own_config(parse_properties(decode_properties(file.read())))
        except (ConfigError, ValueError) as error:
            raise Failure(f"{path}: {error.message if isinstance(error, ConfigError) else error}") from None


def metadata_directory(config: BrokerConfig) -> str:
    return config.metadata_log_dir or config.log_dirs[0]


def directories(config: BrokerConfig) -> list[str]:
    return list(dict.fromkeys((*config.log_dirs, metadata_directory(config))))


def metadata_directory_id(files: Files, config: BrokerConfig) -> Uuid:
    """The directory id of a controller in the quorum."""
    directory = metadata_directory(config)
    try:
        properties = read_meta_properties(files, directory)
    except DirectoryRefused as error:
        raise Failure(str(error)) from None
    if properties is None or properties.directory_id is None:
        raise Failure(f"{directory} is not formatted; 'ottla storage format --no-initial-controllers' does it.")
    return properties.directory_id


def controller_listeners(config: BrokerConfig) -> dict[str, Endpoint]:
    """The addresses at which other controllers reach this controller, by listener name."""
    endpoints = {
        endpoint.listener_name: endpoint
        for endpoint in (*config.controller_endpoints, *config.advertised_controller_endpoints)
    }
    return {name: Endpoint(endpoint.host or "localhost", endpoint.port) for name, endpoint in endpoints.items()}
