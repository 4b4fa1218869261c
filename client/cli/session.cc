#include "client/cli/session.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "client/cli/broken_pipe.h"
#include "client/cli/json.h"
#include "client/cli/local_cluster.h"
#include "client/cli/printable.h"
#include "common/rpc/token.h"

namespace kintsugi::cli {

namespace {

std::string where_variables_are_set() {
  std::error_code ignored;
  if (std::filesystem::exists("cluster/env", ignored)) return "for the cluster that is here: . cluster/env";
  return "the file `env` in a local cluster's directory sets it (`kintsugi cluster start` makes a cluster)";
}

client::ActingUser this_user() {
  client::ActingUser user{::geteuid(), ::getegid(), {}};
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(static_cast<size_t>(std::max(count, 0)));
  if (count > 0 && ::getgroups(count, groups.data()) == count)
    user.groups.assign(groups.begin(), groups.end());
  return user;
}

/// Does the work. An exception, as printing throws when nobody reads any more, becomes a status, or ends the process.
Status done_without_exceptions(const Run& work, Session& session) {
  try {
    return work(session);
  } catch (const std::system_error& failure) {
    if (failure.code() == std::errc::broken_pipe) end_by_broken_pipe();
    return {Code::kIoError, failure.what()};
  }
}

}  // namespace

CredentialFiles CredentialFiles::of_environment() {
  const auto text = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string(value == nullptr ? "" : value);
  };
  return {text(kSecretVariable), text(kTokenVariable)};
}

Result<std::unique_ptr<client::BlockingClient>> Session::connect_to(const std::string& metaserver,
                                                                    const CredentialFiles& files,
                                                                    Duration retry_limit) {
  client::Options options;
  auto endpoint = runtime::Endpoint::parse(metaserver);
  if (!endpoint) return endpoint.error().with_context(kMetaVariable);
  options.metaserver = *endpoint;
  options.retry_limit = retry_limit;
  options.user = this_user();
  auto secret = rpc::load_credential(files.token, files.secret);
  if (!secret) return secret.error();
  KINTSUGI_ASSIGN(auto tls, runtime::tls_policy(runtime::tls_files_of_environment(), false));
  return std::make_unique<client::BlockingClient>(options, *secret, std::move(tls));
}

Result<client::BlockingClient*> Session::connect() {
  if (client_) return client_.get();
  const char* metaserver = std::getenv(kMetaVariable);
  const CredentialFiles files = CredentialFiles::of_environment();
  const bool unproven = files.secret.empty() && files.token.empty();
  if (metaserver == nullptr || unproven) {
    return Status{Code::kInvalidArgument,
                  metaserver == nullptr
                      ? fmt::format("{} is not set: it says where the metaserver is, as host:port; {}",
                                    kMetaVariable, where_variables_are_set())
                      : fmt::format("{} is not set: it names the file with the cluster's secret; {}",
                                    kSecretVariable, where_variables_are_set())};
  }
  KINTSUGI_ASSIGN(client_, connect_to(metaserver, files, client::Options{}.retry_limit));
  secret_file_ = files.secret;
  interruption_.emplace([this] { client_->cancel(); });
  return client_.get();
}

Run connected(std::function<Status(Session&, client::BlockingClient&)> action) {
  return [action = std::move(action)](Session& session) -> Status {
    KINTSUGI_ASSIGN(client::BlockingClient * client, session.connect());
    return action(session, *client);
  };
}

int Session::run(const Run& work) {
  const Status status = done_without_exceptions(work, *this);
  if (!status.ok()) complain(status.code(), describe(status) + what_to_start(status));
  if (json && says_ok_ && complaints_ == 0) print_json({{"ok", true}});
  if (interruption_) interruption_->end_if_requested();
  interruption_.reset();
  client_.reset();
  // Output that did not arrive is a failure of the command, and only this flush tells.
  if (std::fflush(stdout) != 0) {
    if (errno == EPIPE) end_by_broken_pipe();
    complain(Code::kIoError, fmt::format("standard output: {}", std::strerror(errno)));
  }
  return complaints_ > 0 ? 1 : 0;
}

std::string Session::what_to_start(const Status& status) const {
  if (status.code() != Code::kUnavailable || secret_file_.empty()) return "";
  // The secret of a local cluster lies in its directory.
  const auto cluster = LocalCluster::load(std::filesystem::path(secret_file_).parent_path());
  if (!cluster || cluster->daemons().front().pid() != 0) return "";
  return fmt::format("; it is not running: kintsugi cluster start --dir {}", cluster->directory());
}

void Session::complain(Code code, std::string_view what) {
  if (interrupted()) return;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  ++complaints_;
  const std::string line = json ? error_json(command_, code, what)
                                : fmt::format("kintsugi: {}: {}", command_, shown_message(what));
  std::fprintf(stderr, "%s\n", line.c_str());
}

std::string error_json(std::string_view command, Code code, std::string_view message) {
  Json error{{"command", command}, {"code", code_name(code)}, {"message", message}};
  return Json{{"error", std::move(error)}}.compact();
}

std::string describe(const Status& status) {
  const std::string& message = status.message();
  if (message.empty()) return std::string(code_name(status.code()));
  switch (status.code()) {
    case Code::kNotFound:
    case Code::kAlreadyExists:
    case Code::kNotEmpty:
    case Code::kNotDirectory:
    case Code::kIsDirectory:
      // The metaserver's message is often just the path.
      if (message.find(' ') == std::string::npos)
        return fmt::format("{}: {}", message, code_name(status.code()));
      return message;
    default: return message;
  }
}

}  // namespace kintsugi::cli
