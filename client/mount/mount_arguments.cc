#include "client/mount/mount_arguments.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include "client/lib/options.h"
#include "common/runtime/tls/tls_network.h"

namespace kintsugi::mount {
namespace {

/// Options of mount(8) that mean nothing here, or what is the case anyway: reads never change access times.
constexpr std::array kPassedOver{
    "rw",         "defaults", "auto",    "noauto",     "nouser",     "_netdev",       "nofail",
    "async",      "relatime", "noatime", "nodiratime", "norelatime", "strictatime",   "lazytime",
    "nolazytime", "silent",   "loud",    "diratime",   "atime",      "nostrictatime", "default_permissions"};

struct Refused {
  std::string_view name, why;
};
/// Options that people know from other file systems, and what is to be done in their place.
constexpr std::array kRefused{
    Refused{"sync", "not every write is synced: open with O_SYNC, or call fsync"},
    Refused{"dirsync", "not every name is synced: call fsync of the directory"},
    Refused{"mand", "Linux has no mandatory locks any more"},
    Refused{"uid", "files have the owners that the cluster keeps for them: use chown"},
    Refused{"gid", "files have the groups that the cluster keeps for them: use chgrp"},
    Refused{"umask", "files have the modes that the cluster keeps for them: use chmod"},
    Refused{"max_read", "the mount agrees with the kernel about the size of reads (1 MiB)"},
    Refused{"attr_timeout", "use cached_for"},
    Refused{"entry_timeout", "use cached_for"},
};

constexpr std::array kWithoutValue{"--help",       "--describe",   "--version",       "--check",
                                   "--foreground", "--keep-awake", "--no-keep-awake", "--await-mount"};

Status check_option(std::string_view name) {
  for (const Refused& refused : kRefused)
    if (name == refused.name)
      return {Code::kInvalidArgument, fmt::format("-o {} is not offered: {}", name, refused.why)};
  return {};
}

/// What mount(8) says of options that let users mount: others that come after it may take it back.
void no_privileges(MountOptions& options, bool no_exec) {
  options.no_suid = options.no_dev = true;
  if (no_exec) options.no_exec = true;
}

bool is_for_others(std::string_view option) {
  return option.empty() || option.starts_with("x-") || option.starts_with("X-") ||
         option.starts_with("comment") ||
         std::find(kPassedOver.begin(), kPassedOver.end(), option) != kPassedOver.end();
}

Status apply_option(const std::string& option, MountArguments& arguments, std::vector<std::string>& flags) {
  const size_t equals = option.find('=');
  KINTSUGI_TRY(check_option(std::string_view(option).substr(0, equals)));
  if (is_for_others(option)) return {};
  if (equals != option.npos) {
    std::string name = option.substr(0, equals);
    if (name == "fsname" || name == "subtype") return {};
    std::replace(name.begin(), name.end(), '_', '-');
    flags.push_back("--" + name + "=" + option.substr(equals + 1));
    return {};
  }
  MountOptions& options = arguments.options;
  if (option == "ro") {
    options.read_only = true;
  } else if (option == "user" || option == "users") {
    no_privileges(options, true);
  } else if (option == "owner" || option == "group") {
    no_privileges(options, false);
  } else if (option == "nosuid" || option == "suid") {
    options.no_suid = option == "nosuid";
  } else if (option == "nodev" || option == "dev") {
    options.no_dev = option == "nodev";
  } else if (option == "exec" || option == "noexec") {
    options.no_exec = option == "noexec";
  } else if (option == "allow_other" || option == "noallow_other") {
    options.allow_other = option == "allow_other";
  } else if (option == "foreground") {
    arguments.foreground = true;
  } else {
    return {Code::kInvalidArgument, fmt::format("-o {}: there is no such option", option)};
  }
  return {};
}

Status apply_options(const std::string& list, MountArguments& arguments, std::vector<std::string>& flags) {
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    KINTSUGI_TRY(apply_option(list.substr(at, end - at), arguments, flags));
    at = end + 1;
  }
  return {};
}

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void add_settings(config::Settings& settings, MountArguments& arguments, std::string& metaserver) {
  settings.add("metaserver", &metaserver, "host:port of the metaserver (default: $KINTSUGI_META)");
  settings.add("secret_file", &arguments.secret_file,
               "the cluster's secret (default: $KINTSUGI_SECRET_FILE)");
  settings.add("token_file", &arguments.token_file,
               "a token, in place of the secret (default: $KINTSUGI_TOKEN_FILE)");
  settings.add("tls.certificate", &arguments.tls.certificate,
               "certificate of this host or user, as PEM (default: $KINTSUGI_TLS_CERTIFICATE)");
  settings.add("tls.key", &arguments.tls.key, "its key, as PEM (default: $KINTSUGI_TLS_KEY)");
  settings.add("tls.authority", &arguments.tls.authority,
               "certificate of the cluster's authority, as PEM (default: $KINTSUGI_TLS_AUTHORITY)");
  settings.add("foreground", &arguments.foreground, "stay in the foreground, as for systemd");
  settings.add("await_mount", &arguments.await_mount,
               "serve the mount that another process makes (mount_for): this one needs no rights then");
  settings.add("mount_for", &arguments.mount_for,
               "mount for the process of this number, which awaits it, and end once the directory answers; "
               "0: for itself");
  settings.add("wait", &arguments.wait,
               "how long to wait for the metaserver before the mount fails and nothing is mounted", 1s);
  settings.add("io_timeout", &arguments.io_timeout,
               "how long an operation waits for servers before it fails with EIO; 0: for ever");
  settings.add_bytes("dirty", &arguments.dirty_bytes, "most bytes that are written and not durable yet",
                     16 << 20, uint64_t{16} << 30);
  settings.add_bytes("memory", &arguments.memory_bytes, "most memory for file data in flight",
                     client::kMinMemoryBytes);
  settings.add_bytes("read_ahead", &arguments.read_ahead_bytes, "most bytes that are read ahead");
  settings.add("write_behind", &arguments.write_behind,
               "data that was written is sent to the cluster after this time at the latest");
  settings.add("cached_for", &arguments.cached_for, "how long the kernel caches names and attributes");
  settings.add("keep_awake", &arguments.keep_awake,
               "keep the processors of a virtual machine from halting while applications use the mount");
  settings.add("log_file", &arguments.log_file,
               "where the log goes (default: syslog; in the foreground standard error)");
}

/// The words of a command line, as they stand there.
struct Words {
  std::vector<std::string> flags;  ///< flags for config::Settings, each with its value
  std::vector<std::string> positional;
};

/// mount(8) gives these to its helpers; they change nothing here.
bool is_of_mount(std::string_view argument) {
  return argument == "-v" || argument == "-n" || argument == "-s";
}

Result<Words> read_words(int argc, const char* const* argv, MountArguments& arguments) {
  Words words;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "-o" && i + 1 < argc) {
      KINTSUGI_TRY(apply_options(argv[++i], arguments, words.flags));
    } else if (argument.starts_with("-o") && argument.size() > 2) {
      KINTSUGI_TRY(apply_options(argument.substr(2), arguments, words.flags));
    } else if (argument.starts_with("--")) {
      words.flags.push_back(argument);
      const bool takes_value =
          argument.find('=') == argument.npos && i + 1 < argc &&
          std::find(kWithoutValue.begin(), kWithoutValue.end(), argument) == kWithoutValue.end();
      if (takes_value) words.flags.push_back(argv[++i]);
    } else if (argument == "-h") {
      words.flags.push_back("--help");
    } else if (argument == "-f") {
      arguments.foreground = true;
    } else if (!is_of_mount(argument)) {
      words.positional.push_back(argument);
    }
  }
  return words;
}

/// Sets what is mounted, and where.
Status set_places(const Words& words, std::string metaserver, MountArguments& arguments) {
  if (words.positional.empty() || words.positional.size() > 2)
    return {Code::kInvalidArgument, "usage: kintsugi-mount [METASERVER] DIRECTORY [-o OPTIONS] (--help)"};
  if (words.positional.size() == 2) metaserver = words.positional.front();
  std::error_code error;
  arguments.directory = std::filesystem::absolute(words.positional.back(), error).lexically_normal();
  if (metaserver.empty())
    return {Code::kInvalidArgument,
            "which cluster? Give the metaserver's host:port before the directory, or set KINTSUGI_META"};
  if (arguments.secret_file.empty() && arguments.token_file.empty())
    return {
        Code::kInvalidArgument,
        "-o secret_file=FILE or KINTSUGI_SECRET_FILE names the cluster's secret, or -o token_file=FILE or "
        "KINTSUGI_TOKEN_FILE a token"};
  auto endpoint = runtime::Endpoint::parse(metaserver);
  if (!endpoint) return endpoint.error().with_context("metaserver");
  arguments.metaserver = *endpoint;
  arguments.options.source = metaserver;
  return {};
}

}  // namespace

Result<MountArguments> parse_arguments(int argc, const char* const* argv) {
  MountArguments arguments;
  std::string metaserver = from_environment("KINTSUGI_META");
  arguments.secret_file = from_environment("KINTSUGI_SECRET_FILE");
  arguments.token_file = from_environment("KINTSUGI_TOKEN_FILE");
  arguments.tls = runtime::tls_files_of_environment();
  // Only root may let others in without being asked; a user's mount is the user's own.
  arguments.options.allow_other = ::geteuid() == 0;
  config::Settings settings("kintsugi-mount [METASERVER] DIRECTORY [-o OPTIONS]",
                            "Mounts the cluster's file system at a directory.");
  add_settings(settings, arguments, metaserver);
  KINTSUGI_ASSIGN(const Words words, read_words(argc, argv, arguments));
  std::vector<const char*> given{argv[0]};
  for (const std::string& flag : words.flags)
    given.push_back(flag.c_str());
  KINTSUGI_TRY(settings.parse(static_cast<int>(given.size()), given.data()));
  if (settings.help_wanted() || settings.description_wanted()) {
    std::printf("%s", (settings.help_wanted() ? settings.help() : settings.describe()).c_str());
    std::exit(0);
  }
  if (settings.check_wanted()) {
    std::printf("%s", settings.effective().c_str());
    std::exit(0);
  }
  KINTSUGI_TRY(set_places(words, std::move(metaserver), arguments));
  // Whoever mounts for it has to know its number before it waits.
  if (arguments.await_mount && !arguments.foreground)
    return Status{Code::kInvalidArgument, "--await-mount is for the foreground: give --foreground, too"};
  if (arguments.await_mount && arguments.mount_for != 0)
    return Status{Code::kInvalidArgument, "--await-mount and --mount-for are for two processes"};
  return arguments;
}

}  // namespace kintsugi::mount
