"""Column forms of tasks: whole batches as columns instead of record after record. See README.md."""

from ottla.streams.columnar.task import ColumnTask, Input, NotInColumnsError, column_task, records_of

__all__ = ["ColumnTask", "Input", "NotInColumnsError", "column_task", "records_of"]
