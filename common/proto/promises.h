/// How long what a client was told of an inode may be believed (callback promises, as in AFS).
#pragma once

#include <chrono>

namespace kintsugi {

/// A session whose kernel believes names and attributes for a while without asking again (KeepSessionRequest.believes)
/// is told when somebody else changes them, and the change is answered once it has heard of it, or once nothing can be
/// believed any more: so long after the request was made whose answer is believed.
inline constexpr std::chrono::nanoseconds kBelieved = std::chrono::seconds(1);

/// In a directory in which others work too, a session that has heard so believes no names for so long: making the
/// kernel forget one takes the lock of the directory, which its own operations hold while they wait.
inline constexpr std::chrono::nanoseconds kShared = std::chrono::seconds(10);

}  // namespace kintsugi
