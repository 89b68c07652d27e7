"""Errors of the client's side. Errors that a broker names are the classes of `model.errors`."""

from spark_pulsar.model.errors import WIRE_ERRORS, PulsarError, ServerError
from spark_pulsar.model.positions.ids import MessageId


class InvalidServiceUrl(PulsarError, ValueError):
    """The service URL is no `pulsar://host[:port][,host[:port]…]`, nor one of `pulsar+ssl://`."""


class NotSupportedByClient(PulsarError):
    """Pulsar has it, this client does not: lookup over HTTP, some authentication plugins."""

    code = ServerError.NotAllowedError


def naming_topic(error: PulsarError, topic: str) -> PulsarError:
    """Returns the answer of a broker with the topic in its text; most answers leave it out."""
    if topic and type(error) in WIRE_ERRORS and topic not in error.message:
        error.args = (f"{topic}: {error.message}",)
    return error


class ClientClosed(PulsarError):
    """The client, publisher or fetch was closed before or while it was used."""


class ConnectionLost(PulsarError):
    """The connection to a broker broke: closed by the peer, silent for too long, or broken frames."""

    code = ServerError.ServiceNotReady
    retriable = True


class ConnectFailed(ConnectionLost):
    """No connection could be made: refused, unknown host, no answer to the handshake."""


class NoListener(ConnectFailed):
    """Nothing listens at an address, or its host is unknown."""


class TlsError(PulsarError):
    """No encrypted connection: a certificate that is not accepted, or a file of certificates that cannot be used."""

    code = ServerError.AuthenticationError


class WrongPort(PulsarError):
    """A port that is not the one of the service URL: the admin API's, one of TLS for a plain URL, or the reverse."""

    code = ServerError.NotAllowedError


class CredentialsError(PulsarError):
    """There are no credentials to show: a file or a variable is missing, or an issuer refuses."""

    code = ServerError.AuthenticationError


class EncryptionKeyError(PulsarError):
    """A public or private key for messages that cannot be used; the text names its place and shows nothing of it."""


class DecryptionError(PulsarError):
    """Error of a message that none of the client's private keys opens, or whose encrypted bytes were changed."""


class UnexpectedReply(PulsarError):
    """The broker answered with something that the protocol does not allow there."""


class TooManyRedirects(PulsarError):
    """A lookup was sent from broker to broker without end (limit: MAX_LOOKUP_REDIRECTS)."""


class OperationTimeout(PulsarError, TimeoutError):
    """An operation was not over in time: `what` was waited for, `where`, how long, and what ended the last try."""

    def __init__(self, what: str = "", where: str = "", timeout_ms: int = 0, cause: str = "") -> None:
        super().__init__("")
        self.args = (what, where, timeout_ms, cause)
        self.what = what
        self.where = where
        self.timeout_ms = timeout_ms
        self.cause = cause

    @property
    def message(self) -> str:
        """The whole sentence."""
        text = f"timed out after {self.timeout_ms} ms {self.what} at {self.where}"
        return f"{text}: {self.cause}" if self.cause else text


class AnswerOverdue(OperationTimeout):
    """One request got no answer in time, while its operation may go on: it is made again."""

    retriable = True


class MessageTooLarge(PulsarError):
    """An entry is larger than its broker, or topic, accepts: `size_bytes` of metadata and payload; a hint.

    `limit_bytes` is that of the broker, or of the topic's policy; 0 for a topic that refused without saying it.
    """

    code = ServerError.NotAllowedError

    def __init__(
        self, size_bytes: int = 0, limit_bytes: int = 0, topic: str = "", hint: str = "", of_topic: bool = False
    ) -> None:
        super().__init__("")
        self.args = (size_bytes, limit_bytes, topic, hint, of_topic)
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        self.topic = topic
        self.hint = hint
        self.of_topic = of_topic

    @property
    def message(self) -> str:
        """The whole sentence."""
        text = f"{self.topic}: an entry of {self.size_bytes} bytes (metadata and payload) "
        if self.of_topic:
            text += "exceeds the topic's policy maxMessageSize" + (
                f" of {self.limit_bytes}" if self.limit_bytes else ""
            )
        else:
            text += f"exceeds the broker's maximum of {self.limit_bytes}"
        return f"{text}; {self.hint}" if self.hint else text


class SequenceIdForgotten(PulsarError):
    """The broker does not know the last message of a producer that has its receipt, or that it had announced: the topic
    does not de-duplicate, or has stopped to."""

    code = ServerError.NotAllowedError

    def __init__(self, topic: str = "", producer_name: str = "", sequence_id: int = -1, known: int = -1) -> None:
        super().__init__("")
        self.args = (topic, producer_name, sequence_id, known)
        self.topic = topic
        self.producer_name = producer_name
        self.sequence_id = sequence_id
        self.known = known

    @property
    def message(self) -> str:
        """The whole sentence."""
        known = "no sequence id" if self.known < 0 else f"sequence id {self.known}"
        return (
            f"{self.topic} knows {known} of producer {self.producer_name}, which has written up to {self.sequence_id}"
        )


class DeliveryHeldBack(PulsarError):
    """A Shared or Key_Shared subscription, as which a policy has readers attach, holds back messages that have a
    delivery time: those of a range cannot be read in order, or not now."""

    code = ServerError.NotAllowedError


class SequenceIdPassed(PulsarError):
    """A broker that de-duplicates has not stored an entry and has stored later ones of its producer, so that it drops
    the entry as a duplicate."""

    code = ServerError.NotAllowedError


class EndNotReached(PulsarError):
    """The log ends before the end of the requested range, so that waiting would never end (OFFSET-8).

    The reader returned every message that exists, up to `position` (next to read); the topic's last message was `last`
    (None: the topic is empty) when the client requested it. Data between `position` and `end` was deleted, or never
    existed.
    """

    def __init__(
        self,
        topic: str = "",
        start: MessageId | None = None,
        end: MessageId | None = None,
        position: MessageId | None = None,
        last: MessageId | None = None,
    ) -> None:
        super().__init__("")
        self.args = (topic, start, end, position, last)
        self.topic = topic
        self.start = start
        self.end = end
        self.position = position
        self.last = last

    @property
    def message(self) -> str:
        """The whole sentence."""
        ends = "the topic is empty" if self.last is None else f"its last message is {self.last}"
        return (
            f"{self.topic}: read from {self.start} to {self.position}, but the end {self.end} cannot be reached: {ends}"
        )
