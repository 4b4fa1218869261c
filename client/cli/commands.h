/// The command groups, in the order in which the help shows them.
#pragma once

#include <vector>

#include "client/cli/command.h"

namespace kintsugi::cli {

std::vector<Command> cluster_commands();    ///< cluster start, stop, status, init, check
std::vector<Command> transfer_commands();   ///< put, get, cat
std::vector<Command> namespace_commands();  ///< ls, stat, rm, mv, mkdir, rmdir, du, df
std::vector<Command> policy_commands();     ///< policy list, get, set
std::vector<Command> quota_commands();      ///< quota set, show, list, remove
std::vector<Command> snapshot_commands();   ///< snapshot create, list, delete
std::vector<Command> trash_commands();      ///< trash set, list, restore, empty
std::vector<Command> token_commands();      ///< token create, list, revoke
std::vector<Command> key_commands();        ///< key status, rotate
std::vector<Command> server_commands();     ///< server list, drain, undrain, remove
std::vector<Command> fault_commands();      ///< fault set, list, clear
std::vector<Command> trace_commands();      ///< trace attach, status, detach, show
std::vector<Command> inspect_commands();    ///< stripe show, fsck, diagnose, doctor
std::vector<Command> metadata_commands();   ///< metadata status, accept; quarantine list, keep, empty
std::vector<Command> repair_commands();     ///< repair status, history, run, what-if
std::vector<Command> bench_commands();      ///< bench put, get, metadata, degraded-read
std::vector<Command> plan_commands();       ///< plan
Command init_command();                     ///< cluster init
Command check_command();                    ///< cluster check
Command finalize_command();                 ///< cluster finalize
Command fsck_command();                     ///< fsck
Command diagnose_command();                 ///< diagnose
Command doctor_command();                   ///< doctor
Command what_if_command();                  ///< repair what-if
Command degraded_read_bench();              ///< bench degraded-read

}  // namespace kintsugi::cli
