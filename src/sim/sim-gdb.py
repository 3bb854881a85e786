"""For gdb: shows the programs of a simulated world. Ranks have copies that the system's loader
knows nothing of; the command calls spin_program_loaded for each, and this reads their symbols there
(of the first 64 ranks).

    gdb -x sim-gdb.py --args openspin sim run -n 4 sum.so sum.spin
    (gdb) break contribute
    (gdb) run
"""
import gdb


class Loaded(gdb.Breakpoint):
    def stop(self):
        arm = "aarch64" in gdb.selected_frame().architecture().name()
        path = gdb.parse_and_eval("(char *)" + ("$x0" if arm else "$rdi")).string()
        base = int(gdb.parse_and_eval("(unsigned long)" + ("$x1" if arm else "$rsi")))
        gdb.execute(f"add-symbol-file {path} -o {base:#x}", to_string=True)
        return False


gdb.execute("set confirm off")
gdb.execute("set breakpoint pending on")
Loaded("*spin_program_loaded", internal=True)
