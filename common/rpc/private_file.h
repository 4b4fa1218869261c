/// Files that only their owner may read.
#pragma once

#include <string>

#include "common/base/status.h"

namespace kintsugi::rpc {

/// Reads a small file. Refuses one that others may read, that is no regular file, or that is longer than `most`; `what`
/// names it in errors: "secret file".
Result<std::string> read_private_file(const std::string& path, std::string_view what, size_t most);

/// Returns the error that write_private_file would have now: something is there already, or nothing can be made there. For those
/// who must know before they do what cannot be taken back.
Status check_new_private_file(const std::string& path, std::string_view what);

/// Makes a file with mode 0600, durable before this returns. kAlreadyExists keeps what is there.
Status write_private_file(const std::string& path, std::string_view what, std::string_view text);

/// Replaces a file that is there, durably: readers see the old contents or the new ones, never a part, and after an error or a
/// crash one of the two stands. Its owner and group stay, and its mode is 0600. What is not written yet is beside it, in
/// ".NAME.kintsugi-new": no other file is touched.
Status replace_private_file(const std::string& path, std::string_view what, std::string_view text);

}  // namespace kintsugi::rpc
