"""OTLP over HTTP: ready bytes in a POST, urllib3's retry policy, one deadline over everything."""

from __future__ import annotations

import random
import re
import zlib
from http.client import BadStatusLine
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from google.protobuf.json_format import Parse, ParseError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from urllib3.exceptions import (
    HTTPError,
    InvalidHeader,
    MaxRetryError,
    NewConnectionError,
    ProtocolError,
    SSLError,
)
from urllib3.exceptions import TimeoutError as HttpTimeoutError

from otel_torchprof.telemetry.otlp_sender import (
    USER_AGENT,
    OtlpSender,
    TooLarge,
    Unusable,
    parse_partial_success,
)
from otel_torchprof.telemetry.send_result import (
    REDIRECTED,
    REFUSED,
    SHUT_DOWN,
    TIMEOUT,
    TLS,
    UNAVAILABLE,
    SendResult,
)

_GZIP_WBITS = 31
_MAX_ANSWER_BYTES = 64 * 1024
_READ_BYTES = 16 * 1024
# What urllib3 puts before a cause: `<...HTTPConnection object at 0x7f>: ` or `HTTPConnection(host=...): `.
_REPRESENTATION = re.compile(r"^(?:.*>|HTTPS?Connection\([^)]*\)): ", re.DOTALL)
_IF_GRPC = "if that port takes gRPC, set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or port 4318"


class OtlpRetry(urllib3.Retry):
    """When and how long to wait before another try: urllib3's rules with OTLP's status codes.

    Unlike urllib3's own backoff the first retry waits too, and the jitter scales with the wait.
    """

    RETRY_AFTER_STATUS_CODES: ClassVar[frozenset[int]] = frozenset({429, 502, 503, 504})  # type: ignore[misc]
    JITTER: ClassVar[float] = 0.2

    @classmethod
    def new_policy(cls) -> OtlpRetry:
        return cls(
            total=5,
            redirect=0,
            allowed_methods=None,
            status_forcelist=cls.RETRY_AFTER_STATUS_CODES,
            backoff_factor=0.5,
            backoff_max=5.0,
            backoff_jitter=cls.JITTER,
            raise_on_status=True,
        )

    def get_backoff_time(self) -> float:
        doublings = max(len(self.history) - 1, 0)
        backoff_s = min(self.backoff_factor * 2**doublings, self.backoff_max)
        return float(backoff_s * random.uniform(1 - self.backoff_jitter, 1 + self.backoff_jitter))

    def delay_s(self, response: urllib3.BaseHTTPResponse | None) -> float:
        """Seconds to wait before the next try: what the server asks for, else the backoff."""
        if response is not None:
            try:
                retry_after_s = self.get_retry_after(response)
            except InvalidHeader:
                retry_after_s = None
            if retry_after_s is not None:
                return float(retry_after_s)
        return self.get_backoff_time()


class OtlpHttpSender(OtlpSender[urllib3.PoolManager]):
    """Sends encoded requests by HTTP POST; settings are in `OtlpConfig`, manners in `OtlpSender`."""

    def _connect(self) -> urllib3.PoolManager:
        pool_options: dict[str, Any] = {"num_pools": 1, "maxsize": 1}
        if self.config.endpoint.startswith("https:"):
            pool_options["cert_reqs"] = "CERT_REQUIRED"
            for option, path in (
                ("ca_certs", self.config.certificate_file),
                ("cert_file", self.config.client_certificate_file),
                ("key_file", self.config.client_key_file),
            ):
                if path is not None:
                    self._read_file(path)  # urllib3 would only say that the connection failed
                    pool_options[option] = str(path)
        proxy = _proxy_for(self.config.endpoint)
        if proxy is None:
            return urllib3.PoolManager(**pool_options)
        if proxy.startswith("socks"):
            try:
                from urllib3.contrib.socks import SOCKSProxyManager
            except ImportError as error:
                raise Unusable(UNAVAILABLE, "a SOCKS proxy needs `pip install 'urllib3[socks]'`") from error
            return SOCKSProxyManager(proxy, **pool_options)
        proxy, credentials = _without_credentials(proxy)
        if credentials:
            pool_options["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=credentials)
        return urllib3.ProxyManager(proxy, **pool_options)

    def _deliver(self, payload: bytes, spans: int, deadline: float) -> SendResult:
        url, headers = self._url_and_headers()
        body = _gzip(payload) if self.config.compression == "gzip" else payload
        retry = OtlpRetry.new_policy()
        while True:
            response: urllib3.BaseHTTPResponse | None = None
            error: Exception | None = None
            try:
                response = self._post(url, headers, body, deadline)
                outcome = self._answered(response, spans, deadline)
                if outcome is not None:
                    return outcome
                cause = f"{response.status} {response.reason or ''}"
            except NewConnectionError as failure:  # which urllib3 counts among the timeouts
                error, cause = failure, _cause(failure)
            except HttpTimeoutError as timeout:
                # Each try may take all the time there is, so a timeout leaves nothing for another one.
                return self._drop(TIMEOUT, spans, _cause(timeout))
            except SSLError as failure:
                return self._drop(TLS, spans, _cause(failure))
            except HTTPError as failure:
                error, cause = failure, _cause(failure)
            finally:
                if response is not None:
                    response.release_conn()
            try:
                retry = retry.increment("POST", url, response=response, error=error)
            except MaxRetryError:
                return self._drop(UNAVAILABLE, spans, cause)
            delay_s = retry.delay_s(response)
            if self._clock() + delay_s >= deadline:
                return self._drop(UNAVAILABLE, spans, f"{cause}; no time is left for another try")
            if not self._wait(delay_s):
                return SendResult.dropped(SHUT_DOWN, spans, self.config.redact(cause))

    def _url_and_headers(self) -> tuple[str, dict[str, str]]:
        url, credentials = _without_credentials(self.config.endpoint)
        headers = {"user-agent": USER_AGENT}
        if credentials:
            headers.update(urllib3.make_headers(basic_auth=credentials))
        headers.update(self.config.headers)
        headers["content-type"] = "application/x-protobuf"
        if self.config.compression == "gzip":
            headers["content-encoding"] = "gzip"
        return url, headers

    def _post(
        self, url: str, headers: dict[str, str], body: bytes, deadline: float
    ) -> urllib3.BaseHTTPResponse:
        return self._connected().request(
            "POST",
            url,
            body=body,
            headers=headers,
            retries=False,
            redirect=False,
            preload_content=False,
            timeout=urllib3.Timeout(total=max(deadline - self._clock(), 0.001)),
        )

    def _answered(self, response: urllib3.BaseHTTPResponse, spans: int, deadline: float) -> SendResult | None:
        """The result, or None where the answer asks for another try."""
        status = response.status
        answer = self._read_answer(response, deadline)
        if 200 <= status < 300:
            return self._accepted(_partial_success(answer, response.headers.get("content-type", "")), spans)
        if status == 413:
            raise TooLarge
        if status in OtlpRetry.RETRY_AFTER_STATUS_CODES:
            return None
        if 300 <= status < 400:
            # The address may hold a token in its query: not in the log.
            host = urlsplit(response.headers.get("location", "")).netloc.rpartition("@")[2] or "another path"
            return self._drop(REDIRECTED, spans, f"{status}, to {host}; set the endpoint to that address")
        hint = "; check the path of the endpoint" if status == 404 else ""
        return self._drop(REFUSED, spans, f"{status} {response.reason or ''}{hint}")

    def _read_answer(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        """The body, as far as it is short and in time. What goes wrong here changes no outcome."""
        answer = b""
        try:
            for piece in response.stream(_READ_BYTES):
                answer += piece
                if len(answer) > _MAX_ANSWER_BYTES or self._clock() >= deadline:
                    response.close()
                    break
        except HTTPError:
            response.close()
        return answer


def _partial_success(answer: bytes, content_type: str) -> ExportTracePartialSuccess:
    if "json" not in content_type:
        return parse_partial_success(answer)
    try:
        response = Parse(answer, ExportTraceServiceResponse(), ignore_unknown_fields=True)
    except (ParseError, UnicodeDecodeError):
        response = ExportTraceServiceResponse()
    partial_success: ExportTracePartialSuccess = response.partial_success
    return partial_success


def _gzip(payload: bytes) -> bytes:
    # Level 1: a tenth of the time of the default for a few per cent of size.
    compressor = zlib.compressobj(level=1, wbits=_GZIP_WBITS)
    return compressor.compress(payload) + compressor.flush()


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment (`http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`) has for `url`."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _without_credentials(url: str) -> tuple[str, str]:
    """`url` without user name and password, and those two decoded; empty where there are none."""
    parts = urlsplit(url)
    user_info, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)), unquote(user_info)


def _cause(error: Exception) -> str:
    """What went wrong, without the object representations that urllib3 puts before it."""
    if isinstance(error, ProtocolError):
        return f"{_broken_connection(error)}; {_IF_GRPC}"
    text = _REPRESENTATION.sub("", str(error))
    return text or type(error).__name__


def _broken_connection(error: ProtocolError) -> str:
    """What the peer did. What it answered is no text where it speaks another protocol."""
    original = error.args[-1] if error.args else error
    if isinstance(original, BadStatusLine) and not isinstance(original, ConnectionError):
        return "the answer is not HTTP/1"
    text = original.strerror if isinstance(original, OSError) else None
    return text or str(original) or type(original).__name__
