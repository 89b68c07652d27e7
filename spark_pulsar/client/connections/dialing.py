"""Dialing: opening the stream to a broker, with TLS and through an SNI proxy where the configuration says so."""

import socket
import ssl

from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.service_url import Address
from spark_pulsar.client.connections.streams import PlainStream, Stream, TlsStream
from spark_pulsar.client.connections.wrong_port import probe_without_tls, wrong_port
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectFailed, NoListener, TlsError


def dial(address: Address, config: ClientConfig, step: Deadline) -> Stream:
    """Returns a stream to the broker at `address`, encrypted if the service URL is `pulsar+ssl://`.

    Raises ConnectFailed when nothing can be reached, TlsError when the two sides do not come to terms, WrongPort when
    the port has no TLS, TimeoutError after `step`.
    """
    reached = config.sni_proxy or address
    where = f"{address} through the proxy {reached}" if reached != address else str(address)
    context = config.tls_context()
    for host in {address.host, reached.host}:
        _check_name(host, where)
    try:
        sock = _connected(reached, step)
    except TimeoutError:
        raise
    except OSError as error:
        is_empty = isinstance(error, ConnectionRefusedError | socket.gaierror)
        raise (NoListener if is_empty else ConnectFailed)(f"cannot connect to {where}: {error}") from error
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return PlainStream(sock, config.operation_timeout_ms)
        sock.settimeout(_seconds(step))
        secured = _shake_hands(context, sock, address, reached, where, step)
        return TlsStream(secured, config.operation_timeout_ms)
    except BaseException:
        sock.close()
        raise


def _connected(reached: Address, step: Deadline) -> socket.socket:
    """Returns a socket that is connected to one of the addresses that a name stands for, tried in turn. All together
    have the time of one, so that one which does not answer keeps none of the others from being tried."""
    candidates = socket.getaddrinfo(reached.host, reached.port, type=socket.SOCK_STREAM)
    problems: list[OSError] = []
    for index, (family, kind, protocol, _, address) in enumerate(candidates):
        sock = None
        try:
            sock = socket.socket(family, kind, protocol)
            sock.settimeout(_seconds(step) / (len(candidates) - index))
            sock.connect(address)
        except OSError as error:
            problems.append(error)
            if sock is not None:
                sock.close()
        else:
            return sock
    causes = [problem for problem in problems if not isinstance(problem, TimeoutError)]
    raise causes[-1] if causes else TimeoutError("timed out")


def _shake_hands(
    context: ssl.SSLContext, sock: socket.socket, address: Address, reached: Address, where: str, step: Deadline
) -> ssl.SSLSocket:
    try:
        return context.wrap_socket(sock, server_hostname=address.host)
    except TimeoutError:
        raise
    except ssl.SSLCertVerificationError as error:
        raise TlsError(
            f"the certificate of {where} is not accepted: {error.verify_message} "
            "(tlsTrustCertsFilePath names the authorities to trust, tlsHostnameVerificationEnable checks the host)"
        ) from error
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError) as error:
        _raise_if_plain(reached, where, step, error)
        hint = "it closed the connection in the TLS handshake, is it the broker's TLS port?"
        raise ConnectFailed(f"cannot connect to {where}: {hint}") from error
    except ssl.SSLError as error:
        _raise_if_plain(reached, where, step, error)
        raise TlsError(f"no TLS with {where}, is it the broker's TLS port? {error.reason or error}") from error
    except OSError as error:
        raise ConnectFailed(f"cannot connect to {where}: {error}") from error


def _raise_if_plain(reached: Address, where: str, step: Deadline, error: OSError) -> None:
    """Raises WrongPort for a port that has no TLS; `error` ended the handshake."""
    wrong = wrong_port(where, probe_without_tls(reached, step), uses_tls=True)
    if wrong is not None:
        raise wrong from error


def _check_name(host: str, where: str) -> None:
    """Raises ConnectFailed for a host that neither DNS nor a certificate can name, such as `a..b`."""
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise ConnectFailed(f"cannot connect to {where}: {error}") from error


def _seconds(step: Deadline) -> float:
    return max(1, step.left_ms()) / 1000  # 0 would not block
