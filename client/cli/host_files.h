/// What a host of a cluster needs in /etc/kintsugi: a small file of settings for each of its roles, keys, the secret.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "client/cli/hosts_file.h"
#include "common/runtime/tls/certificate_authority.h"

namespace kintsugi::cli {

/// Where the files of a host lie on it.
inline constexpr std::string_view kHostDirectory = "/etc/kintsugi";
inline constexpr std::string_view kHostCertificate = "tls/host.crt", kHostKey = "tls/host.key",
                                  kHostAuthority = "tls/authority.crt", kHostSecret = "secret",
                                  kHostToken = "token";

struct HostFile {
  std::string name;  ///< "tls/host.key"
  std::string text;
  mode_t mode = 0644;
};

/// Settings of its daemons and of a mount, and variables for shells.
std::vector<HostFile> settings_of_host(const HostsFile& hosts, const HostDescription& host);
/// The certificate and its key, and whom to believe.
std::vector<HostFile> keys_of_host(const runtime::CertifiedKey& own, const std::string& authority);

/// Names and addresses for the certificate of a host. None: it is a client's, at which nobody calls.
std::vector<std::string> certified_hosts(const HostDescription& host);

}  // namespace kintsugi::cli
