"""Certificates of a made-up authority: for servers, for clients, and of somebody else."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc
import trustme


@dataclass(frozen=True)
class Certificates:
    """Files in `folder`; the server's certificate is for 127.0.0.1."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        trustme.CA().cert_pem.write_to_path(str(folder / "other_ca.pem"))
        for name, certificate in (
            ("server", authority.issue_cert("127.0.0.1")),
            ("client", authority.issue_cert("trainer@example.test")),
        ):
            certificate.private_key_pem.write_to_path(str(folder / f"{name}.key"))
            chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
            (folder / f"{name}.pem").write_bytes(chain)
        return cls(folder)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def http_server_context(self, *, asks_for_client: bool) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("server.pem"), self.path("server.key"))
        if asks_for_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.path("ca.pem"))
        return context

    def grpc_server_credentials(self, *, asks_for_client: bool) -> grpc.ServerCredentials:
        key, chain, roots = (
            (self.folder / name).read_bytes() for name in ("server.key", "server.pem", "ca.pem")
        )
        return grpc.ssl_server_credentials(
            [(key, chain)],
            root_certificates=roots if asks_for_client else None,
            require_client_auth=asks_for_client,
        )
