#include "common/rpc/secret_file.h"

#include <filesystem>

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include "common/log/audit_log.h"
#include "common/log/log.h"
#include "common/rpc/private_file.h"
#include "common/rpc/token.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kHexDigits = 2 * sizeof(SecretKey);
constexpr size_t kMostRead = 8192;
constexpr std::string_view kNext = "next ", kFormer = "former ";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool parse_hex(std::string_view digits, SecretKey& key) {
  if (digits.size() != kHexDigits) return false;
  for (size_t i = 0; i < key.size(); ++i) {
    const int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    key[i] = static_cast<std::byte>(high * 16 + low);
  }
  return true;
}

/// The second line.
bool parse_other(std::string_view line, SecretKeys& keys) {
  using Other = SecretKeys::Other;
  for (const auto& [word, is] : {std::pair(kNext, Other::kNext), std::pair(kFormer, Other::kFormer)}) {
    if (!line.starts_with(word)) continue;
    keys.other_is = is;
    return parse_hex(line.substr(word.size()), keys.other) && keys.other != keys.own;
  }
  return false;
}

bool parse_secret(std::string_view text, SecretKeys& keys) {
  if (text.empty() || text.back() != '\n') return false;
  text.remove_suffix(1);
  const size_t end = text.find('\n');
  if (!parse_hex(text.substr(0, end), keys.own)) return false;
  return end == text.npos || parse_other(text.substr(end + 1), keys);
}

/// The step of a rotation that the keys follow from.
std::string step_text(const SecretKeys& keys) {
  const std::vector<Secret> secrets = Secret::with(keys).each();
  const uint64_t own = secrets.front().id(), other = secrets.back().id();
  switch (keys.other_is) {
    case SecretKeys::Other::kNext:
      return fmt::format("step 1 of a new secret: {:016x} is accepted beside {:016x}", other, own);
    case SecretKeys::Other::kFormer:
      return fmt::format("step 2 of a new secret: {:016x} is used, and {:016x} accepted", own, other);
    case SecretKeys::Other::kNone: break;
  }
  return fmt::format("step 3 of a new secret: {:016x} is accepted alone", own);
}

void append_hex(const SecretKey& key, std::string& text) {
  for (const std::byte byte : key)
    text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  text += '\n';
}

Result<SecretKeys> read_token(const std::string& path) {
  KINTSUGI_ASSIGN(const Secret token, load_token(path));
  return *token.keys();
}

}  // namespace

std::string secret_text(const SecretKeys& keys) {
  std::string text;
  append_hex(keys.own, text);
  if (keys.other_is == SecretKeys::Other::kNone) return text;
  text += keys.other_is == SecretKeys::Other::kNext ? kNext : kFormer;
  append_hex(keys.other, text);
  return text;
}

Result<SecretKeys> read_secret(const std::string& path) {
  // A token is longer: it is read as far as it takes to tell.
  KINTSUGI_ASSIGN(std::string text, read_private_file(path, "secret file", kMostRead));
  if (looks_like_token(text))
    return Status{Code::kInvalidArgument,
                  "secret file " + path +
                      " holds a token: name it with --token-file or KINTSUGI_TOKEN_FILE; daemons need the "
                      "secret"};
  SecretKeys keys;
  const bool understood = parse_secret(text, keys);
  OPENSSL_cleanse(text.data(), text.size());
  if (!understood)
    return Status{Code::kInvalidArgument,
                  "secret file " + path +
                      " must hold 64 hex digits and a newline, and while the secret is rotated a second "
                      "line: next or former, and the digits of another one"};
  return keys;
}

Result<SecretKey> random_secret() {
  SecretKey key;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) != 1)
    return Status{Code::kInternal, "no randomness for a cluster secret"};
  return key;
}

SharedKeys::Stamp SharedKeys::stamp_of(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return {};
  // The time of the last change of the inode: a mode that was put right counts, too, and a copy that keeps other times.
  return {.inode = info.st_ino,
          .bytes = static_cast<uint64_t>(info.st_size),
          .changed = WallTime(std::chrono::seconds(info.st_ctim.tv_sec) + Duration(info.st_ctim.tv_nsec))};
}

Result<std::shared_ptr<SharedKeys>> SharedKeys::follow(const std::string& path, Read read) {
  // Taken first: a file that changes meanwhile is read again.
  const Stamp stamp = stamp_of(path);
  KINTSUGI_ASSIGN(SecretKeys keys, read(path));
  auto shared = std::make_shared<SharedKeys>(std::move(keys));
  // A program with the library may change its directory.
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  shared->path_ = error ? path : absolute.string();
  shared->read_ = read;
  shared->stamp_ = stamp;
  shared->in_use_since_ = stamp.changed;
  return shared;
}

Result<std::shared_ptr<SharedKeys>> SharedKeys::follow_secret(const std::string& path) {
  return follow(path, &read_secret);
}

Result<std::shared_ptr<SharedKeys>> SharedKeys::follow_token(const std::string& path) {
  return follow(path, &read_token);
}

std::shared_ptr<const SecretKeys> SharedKeys::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

WallTime SharedKeys::in_use_since() const {
  const std::lock_guard lock(mutex_);
  return in_use_since_;
}

std::string SharedKeys::complaint() const {
  const std::lock_guard lock(mutex_);
  return complaint_;
}

void SharedKeys::look(TimePoint now) {
  if (path_.empty()) return;
  const std::lock_guard lock(mutex_);
  if (now < look_again_) return;
  look_again_ = now + kLookInterval;
  read_again();
}

void SharedKeys::look_at_once() {
  if (path_.empty()) return;
  const std::lock_guard lock(mutex_);
  read_again();
}

void SharedKeys::read_again() {
  const Stamp stamp = stamp_of(path_);
  // What went wrong may have been this process's own lack of descriptors, of which the file says nothing.
  if (stamp == stamp_ && complaint_.empty()) return;
  const bool is_news = stamp != stamp_;
  stamp_ = stamp;
  Result<SecretKeys> keys = read_(path_);
  const std::string before = std::exchange(complaint_, keys ? "" : keys.error().message());
  if (!keys) {
    if (is_news || complaint_ != before)
      log::warning("{} has changed and cannot be used, what it held before stays in use: {}", path_,
                   complaint_);
    return;
  }
  if (*keys == *keys_) return;
  if (keys->own != keys_->own) in_use_since_ = stamp.changed;
  keys_ = std::make_shared<const SecretKeys>(std::move(*keys));
  version_.fetch_add(1, std::memory_order_release);
  log::info("{} has changed and was read again{}", path_,
            keys_->other_is == SecretKeys::Other::kNone ? "" : ": two secrets are accepted");
  // In the name of nobody: whoever may write the file administers.
  if (keys_->claims.empty()) log::audit(fmt::format("{}: {}", path_, step_text(*keys_)));
}

}  // namespace kintsugi::rpc
