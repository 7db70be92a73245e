"""The lab's figures, in one style: each function draws one, on the page or into a file.

`__init__.pyi` says where each is defined. A module, and with it Matplotlib, is imported when its
first figure is used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
