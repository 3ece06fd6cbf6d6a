"""Machine code for this computer, made at run time through llvmlite.

In order of reading: `host` (the machine), `core` (the tape as straight-line vector code), `rows`
(the loop over a batch), `builtin` (calls without Python in between), `kernel` (what users of this
package hold), `reduce` (rows reduced as they are computed).
"""
