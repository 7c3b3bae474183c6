"""The backend, its devices, and the tool itself."""

from __future__ import annotations

from .code import Code

ENTRIES = (
    Code("DST900", "warning", "suppression without effect", "nothing on this line has that code", "remove the comment"),
    Code(
        "DST902",
        "error",
        "source that can't be edited safely",
        "the parser doesn't give the bytes of this file back",
        "remove form feeds and lone carriage returns at the ends of the file",
    ),
    Code(
        "DST903",
        "error",
        "not supported by the backend",
        "it can't do this exactly",
        "use --backend ddp",
    ),
    Code(
        "DST904",
        "note",
        "devices chosen by the launcher",
        "a script that makes one device visible to itself would give it to all processes",
        "choose with the environment: CUDA_VISIBLE_DEVICES=0,1 torchrun …",
    ),
    Code(
        "DST905",
        "error",
        "analysis takes too long",
        "it is given up after the time that --budget allows",
        "raise it with --budget, DISTIFY_BUDGET or budget in [tool.distify]",
    ),
    Code(
        "DST951",
        "warning",
        "device of the process not set",
        'a device without a number ("cuda") is the first one, on which all processes would meet',
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before anything is moved',
    ),
    Code(
        "DST952",
        "note",
        "not converted",
        "the script trains on one process",
        "distify rewrite converts it; --diff shows how",
    ),
    Code(
        "DST953",
        "error",
        "new since the conversion",
        "what was written here runs on every process as if it were the only one",
        "--fix converts it, as another distify rewrite does",
    ),
)
