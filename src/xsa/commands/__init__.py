"""The verbs of `xsa` that are no stages: a module each, named after its verb, with the click command `command`.

`stages.py` makes the stages' verbs and `options.py` holds what verbs share; every other module is found by its name
(`import_.py` is `xsa import`, `import_nanochat.py` is `xsa import-nanochat`) and imported when its verb is called.
"""
