"""gpuwire: is this GPU node still wired and driven the way it was when we trusted it?"""

__version__ = "0.1.0"
