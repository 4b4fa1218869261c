/// A service of Type=notify tells systemd by this what state it is in.
#pragma once

namespace kintsugi::mount {

/// Sends "READY=1\n", say, to the socket that NOTIFY_SOCKET names; does nothing without one. Allocates nothing.
void tell_systemd(const char* text);

}  // namespace kintsugi::mount
