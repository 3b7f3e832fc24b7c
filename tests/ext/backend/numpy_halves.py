"""Makes numpy_halves.h: float32 values and what NumPy's float16 makes of them, as bits. usage: python numpy_halves.py > numpy_halves.h"""
import numpy as np

CLASSES = {
    "zeros": [0.0, -0.0],
    "normal": [1.0, -1.5, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-20, 0.1, -1 / 3, 2049.0, 2051.0, 2050.99],
    "largest": [65504.0, 65519.0, 65519.996, 65520.0, -65520.0, 65536.0, 1e10, -3e38],
    "smallest normal": [2**-14, 2**-14 - 2**-25, 2**-14 - 2**-26, 2**-14 + 2**-25, -(2**-14)],
    "subnormal": [2**-24, 1.5 * 2**-24, 2.5 * 2**-24, 2**-15, -(2**-15 + 2**-25), 3e-6, -1e-5, 5.960e-8],
    "too small": [2**-25, 2**-25 * (1 + 2**-20), 2**-26, -1e-8, 1e-40, -1e-45],
    "not numbers": [np.inf, -np.inf, np.nan],
}
print(f"/* Made by numpy_halves.py with NumPy {np.__version__}. */")
with np.errstate(all="ignore"):
    for name, values in CLASSES.items():
        for value in values:
            wide = np.float32(value)
            rounded = np.float32(np.float16(wide))
            print(f'{{"{name}", 0x{wide.view(np.uint32):08x}u, 0x{rounded.view(np.uint32):08x}u}},')
