"""Each test runs over a stream and over HTTP."""

from tests.client.transports import transport as transport
