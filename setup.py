"""The compiled modules; everything else is in pyproject.toml.

They encode and decode records for clients and Spark. Where there is no compiler they are left out, and their twins in
Python do the same more slowly.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            f"ottla.client.{package.replace('/', '.')}._native",
            [f"src/ottla/client/{package}/_native.c"],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-std=c11"],
            optional=True,
        )
        for package in ("columns/decode", "columns/encode", "fast")
    ]
)
