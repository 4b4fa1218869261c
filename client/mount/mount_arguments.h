/// The command line of kintsugi-mount, as a user types it and as mount(8) and fstab give it.
#pragma once

#include <string>

#include "client/mount/kernel/mount_point.h"
#include "common/base/status.h"
#include "common/config/config.h"
#include "common/runtime/network.h"
#include "common/runtime/tls/tls_identity.h"

namespace kintsugi::mount {

struct MountArguments {
  runtime::Endpoint metaserver;
  std::string secret_file;
  std::string token_file;  ///< not empty: it is used in place of the secret
  runtime::TlsFiles tls;
  std::string directory;  ///< absolute path
  MountOptions options;
  bool foreground = false;
  bool await_mount = false;                  ///< another process mounts for this one
  uint32_t mount_for = 0;                    ///< not 0: mounts for this process, which awaits it, and ends
  Duration wait = std::chrono::seconds(10);  ///< how long to wait for the metaserver before mounting
  Duration io_timeout = std::chrono::minutes(10);  ///< 0: no limit
  uint64_t dirty_bytes = uint64_t{128} << 20;
  uint64_t memory_bytes = uint64_t{128} << 20;
  uint64_t read_ahead_bytes = uint64_t{64} << 20;
  Duration write_behind = std::chrono::seconds(2);
  Duration cached_for = std::chrono::seconds(1);
  bool keep_awake = true;
  std::string log_file;
};

/// `kintsugi-mount [METASERVER] DIRECTORY [-o OPTION,…] [--flags]`. What is not given comes from KINTSUGI_META,
/// KINTSUGI_SECRET_FILE and KINTSUGI_TOKEN_FILE, and the files of TLS from KINTSUGI_TLS_CERTIFICATE, ..._KEY and ..._AUTHORITY. `-o name=value` is `--name value`; options of mount(8) that mean nothing here are passed over.
/// Exits by itself after --help. kInvalidArgument with one line.
Result<MountArguments> parse_arguments(int argc, const char* const* argv);

}  // namespace kintsugi::mount
