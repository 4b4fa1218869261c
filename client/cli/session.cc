#include "client/cli/session.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace kintsugi::cli {

Result<std::unique_ptr<client::BlockingClient>> Session::connect_to(const std::string& metaserver,
                                                                    const std::string& secret_file,
                                                                    Duration retry_limit) {
  client::Options options;
  auto endpoint = runtime::Endpoint::parse(metaserver);
  if (!endpoint) return endpoint.error().with_context(kMetaVariable);
  options.metaserver = *endpoint;
  options.retry_limit = retry_limit;
  auto secret = rpc::Secret::load(secret_file);
  if (!secret) return secret.error();
  return std::make_unique<client::BlockingClient>(options, *secret);
}

Result<client::BlockingClient*> Session::connect() {
  if (client_) return client_.get();
  const char* metaserver = std::getenv(kMetaVariable);
  const char* secret_file = std::getenv(kSecretVariable);
  if (metaserver == nullptr || secret_file == nullptr) {
    return Status{Code::kInvalidArgument,
                  fmt::format("{} is not set: source the `env` file that `kintsugi cluster start` wrote",
                              metaserver == nullptr ? kMetaVariable : kSecretVariable)};
  }
  KINTSUGI_ASSIGN(client_, connect_to(metaserver, secret_file, client::Options{}.retry_limit));
  return client_.get();
}

void Session::choose(std::string command, std::function<Status()> action) {
  command_ = std::move(command);
  action_ = std::move(action);
}

int Session::run() {
  const Status status = action_();
  if (!status.ok()) complain(describe(status));
  client_.reset();
  if (std::fflush(stdout) != 0) complain("standard output: write error");
  return complaints_ > 0 ? 1 : 0;
}

void Session::complain(std::string_view what) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  ++complaints_;
  std::fprintf(stderr, "kintsugi: %s: %.*s\n", command_.c_str(), static_cast<int>(what.size()), what.data());
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
      // Often just the path.
      if (message.find(' ') == std::string::npos)
        return fmt::format("{}: {}", message, code_name(status.code()));
      return message;
    default: return message;
  }
}

Status check_remote(const std::string& path) {
  if (path.starts_with('/')) return {};
  return {Code::kInvalidArgument, fmt::format("{}: a path in the cluster begins with /", path)};
}

Result<ChunkId> parse_chunk(const std::string& text) {
  ChunkId chunk;
  const char* end = text.data() + text.size();
  const auto stripe = std::from_chars(text.data(), end, chunk.stripe.value);
  if (stripe.ec == std::errc() && stripe.ptr != end && *stripe.ptr == ':') {
    const auto index = std::from_chars(stripe.ptr + 1, end, chunk.index);
    if (index.ec == std::errc() && index.ptr == end) return chunk;
  }
  return Status{Code::kInvalidArgument, fmt::format("{}: a chunk is STRIPE:INDEX, as in 81:3", text)};
}

std::string trimmed(std::string path) {
  while (path.size() > 1 && path.ends_with('/'))
    path.pop_back();
  return path;
}

std::string join(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

std::string base_name(const std::string& path) {
  const std::string clean = trimmed(path);
  return clean.substr(clean.rfind('/') + 1);
}

}  // namespace kintsugi::cli
