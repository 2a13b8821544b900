"""The two compiled modules; everything else is in pyproject.toml.

They open and write records for Spark. Where there is no compiler they are left out, and their twins in Python do the
same more slowly.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            f"ottla.spark.{package}._native",
            [f"src/ottla/spark/{package}/_native.c"],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-std=c11"],
            optional=True,
        )
        for package in ("decode", "encode")
    ]
)
