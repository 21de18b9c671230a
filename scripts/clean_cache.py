"""Remove the sandbox's built parts and what an interrupted build left; running sandboxes stay."""

import shutil

from gpustack_deploy.sandbox.cache import parts_dir, scratch_dir

for folder in (parts_dir(), scratch_dir()):
    if folder.exists():
        shutil.rmtree(folder)
        print(f"removed {folder}")
