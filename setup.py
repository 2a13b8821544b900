"""The compiled modules; everything else is in pyproject.toml.

They encode and decode records for clients and Spark, and inspect and compact those of compacted topics for brokers.
Where there is no compiler they are left out, and their twins in Python do the same more slowly.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            f"ottla.{package.replace('/', '.')}._native",
            [f"src/ottla/{package}/_native.c"],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-std=c11"],
            depends=["src/ottla/records/inspection/spans.h"],
            optional=True,
        )
        for package in (
            "client/columns/decode",
            "client/columns/encode",
            "client/fast",
            "records/inspection",
            "storage/cleaner/newest",
        )
    ]
)
