"""`TopologyTestDriver`: topologies without a broker, without Spark and without a clock. See README.md."""

from ottla.streams.driver.driver import TopologyTestDriver
from ottla.streams.driver.topics import TestInputTopic, TestOutputTopic, TestRecord

__all__ = ["TestInputTopic", "TestOutputTopic", "TestRecord", "TopologyTestDriver"]
