"""Mails about payments of more than $10,000.

A mail cannot be taken back, and must not be missing: the offset of a payment is committed after its mail was sent. A
crash between the two repeats a mail, so every mail has the place of its payment as its id, by which mail servers and
readers recognise a repetition. A payment whose mail fails stays uncommitted and is tried again.
"""

from __future__ import annotations

import asyncio
import smtplib
import sys
from collections.abc import Callable
from email.message import EmailMessage

from ottla.client.consumer import ConsumedRecord, Consumer
from ottla.model.ids import TopicPartition

__all__ = ["LIMIT", "TOPIC", "mail_about", "run"]

TOPIC = "card-payments"
LIMIT = 10_000

SendMail = Callable[[EmailMessage], object]


def mail_about(record: ConsumedRecord) -> EmailMessage:
    mail = EmailMessage()
    mail["To"] = f"{record.key}@example.com"
    mail["Subject"] = f"A payment of ${record.value:,}"
    mail["Message-ID"] = f"<{record.topic}.{record.partition}.{record.offset}@payments.example.com>"
    mail.set_content("If you did not make this payment, call us.")
    return mail


async def run(bootstrap: str, send_mail: SendMail, *, until: int | None = None) -> int:
    """Reads payments until `until` were read, or for ever; returns the number of mails that were sent."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "large-payments",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "key.deserializer": "string",
        "value.deserializer": "long",
    }
    mails = seen = 0
    async with Consumer(config) as consumer:
        await consumer.subscribe([TOPIC])
        while until is None or seen < until:
            for record in await consumer.poll():
                seen += 1
                if record.value > LIMIT:
                    await asyncio.to_thread(send_mail, mail_about(record))
                    mails += 1
                    await consumer.commit({TopicPartition(record.topic, record.partition): record.offset + 1})
            # Payments without a mail are committed together.
            await consumer.commit()
    return mails


def send_over_smtp(mail: EmailMessage) -> None:
    with smtplib.SMTP("localhost") as server:
        server.send_message(mail)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092", send_over_smtp))
