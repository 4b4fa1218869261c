#include "client/cli/archive.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/assert.h"

namespace kintsugi::cli {
namespace {

constexpr std::string_view kRemoved = "[removed]";
constexpr size_t kHexOfSecret = 64;
constexpr size_t kBlock = 512;

/// Where fields of a header of POSIX's ustar begin; numbers are octal.
constexpr size_t kMode = 100, kUser = 108, kGroup = 116, kSize = 124, kTime = 136, kChecksum = 148,
                 kType = 156, kMagic = 257, kMostName = 99;

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

std::string without_long_hex(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto end = static_cast<size_t>(
        std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_hex) - text.begin());
    if (end - at >= kHexOfSecret)
      out += kRemoved;
    else
      out.append(text, at, end - at);
    if (end < text.size()) out += text[end];
    at = end + 1;
  }
  return out;
}

/// Without what stands between a begin and the next end, both included; what has no end goes to the end of the text.
std::string without_keys(std::string text) {
  constexpr std::string_view kBegin = "PRIVATE KEY-----", kEnd = "-----END ";
  for (size_t at = 0; (at = text.find(kBegin, at)) != std::string::npos;) {
    const size_t begin = at + kBegin.size();
    const size_t end = std::min(text.find(kEnd, begin), text.size());
    text.replace(begin, end - begin, kRemoved);
    at = text.find(kBegin, begin);  // that of the end
    at = at == std::string::npos ? text.size() : at + kBegin.size();
  }
  return text;
}

std::string without_passwords(std::string text) {
  constexpr std::string_view kScheme = "://";
  for (size_t at = 0; (at = text.find(kScheme, at)) != std::string::npos;) {
    at += kScheme.size();
    const size_t end = text.find_first_of("@/ \t\n\"'", at);
    if (end != std::string::npos && text[end] == '@') text.replace(at, end - at, kRemoved);
  }
  return text;
}

void put(std::array<char, kBlock>& header, size_t at, const std::string& field) {
  std::ranges::copy(field, header.begin() + static_cast<std::ptrdiff_t>(at));
}

std::array<char, kBlock> header_of(const std::string& name, size_t size) {
  std::array<char, kBlock> header{};
  put(header, 0, name);
  put(header, kMode, "0000600");
  put(header, kUser, "0000000");
  put(header, kGroup, "0000000");
  put(header, kSize, fmt::format("{:011o}", size));
  put(header, kTime, fmt::format("{:011o}", std::time(nullptr)));
  put(header, kChecksum, "        ");
  header[kType] = '0';
  put(header, kMagic,
      std::string("ustar\0"
                  "00",
                  8));
  unsigned sum = 0;
  for (const char c : header)
    sum += static_cast<unsigned char>(c);
  put(header, kChecksum, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header;
}

}  // namespace

void Redaction::learn(std::string secret) {
  if (secret.size() >= kShortest) secrets_.push_back(std::move(secret));
}

std::string Redaction::without_secrets(std::string text) const {
  for (const std::string& secret : secrets_)
    for (size_t at = 0; (at = text.find(secret, at)) != std::string::npos; at += kRemoved.size())
      text.replace(at, secret.size(), kRemoved);
  return without_passwords(without_long_hex(without_keys(std::move(text))));
}

struct Archive::State {
  std::string path, root;
  gzFile out = nullptr;
  bool finished = false;

  ~State() {
    if (out != nullptr) ::gzclose(out);
    if (!finished) ::unlink(path.c_str());
  }
  Status write(std::string_view bytes) const {
    if (bytes.empty()) return {};
    if (::gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size())) == static_cast<int>(bytes.size()))
      return {};
    return status_from_errno(errno, path);
  }
};

Archive::Archive(std::unique_ptr<State> state) : state_(std::move(state)) {}
Archive::Archive(Archive&&) noexcept = default;
Archive::~Archive() = default;

Result<Archive> Archive::create(const std::string& path, std::string root) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return status_from_errno(errno, path);
  auto state = std::make_unique<State>();
  state->path = path;
  state->root = std::move(root);
  state->out = ::gzdopen(fd, "wb");
  if (state->out == nullptr) {
    ::close(fd);
    return Status{Code::kIoError, path + ": no memory to compress with"};
  }
  return Archive(std::move(state));
}

Status Archive::add(const std::string& name, std::string_view contents) {
  const std::string full = state_->root + "/" + name;
  KINTSUGI_ASSERT(full.size() <= kMostName);
  const auto header = header_of(full, contents.size());
  KINTSUGI_TRY(state_->write({header.data(), header.size()}));
  KINTSUGI_TRY(state_->write(contents));
  return state_->write(std::string((kBlock - contents.size() % kBlock) % kBlock, '\0'));
}

Status Archive::finish() {
  KINTSUGI_TRY(state_->write(std::string(2 * kBlock, '\0')));
  if (::gzclose(std::exchange(state_->out, nullptr)) != Z_OK) return status_from_errno(errno, state_->path);
  state_->finished = true;
  return {};
}

}  // namespace kintsugi::cli
