/// What systemd is told of a service of Type=notify.
#pragma once

namespace kintsugi::mount {

/// Sends "READY=1\n", say, to the socket that NOTIFY_SOCKET names; does nothing without one. Allocates nothing.
void tell_systemd(const char* text);

}  // namespace kintsugi::mount
