#include "client/mount/kernel/arguments.h"

#include <climits>

namespace kintsugi::mount {

void Arguments::take_into(void* value, size_t size) {
  if (bytes_.size() < size) return fail(EINVAL);
  std::memcpy(value, bytes_.data(), size);
  bytes_ = bytes_.subspan(size);
}

std::string_view Arguments::text(size_t limit, int too_long) {
  const auto* begin = reinterpret_cast<const char*>(bytes_.data());
  const void* end = bytes_.empty() ? nullptr : std::memchr(begin, 0, bytes_.size());
  if (end == nullptr) {
    fail(EINVAL);
    return {};
  }
  const std::string_view found{begin, static_cast<size_t>(static_cast<const char*>(end) - begin)};
  bytes_ = bytes_.subspan(found.size() + 1);
  if (found.empty() || found.size() > limit) {
    fail(found.empty() ? EINVAL : too_long);
    return {};
  }
  return found;
}

std::string_view Arguments::name() {
  const std::string_view found = text(NAME_MAX, ENAMETOOLONG);
  if (found.find('/') == std::string_view::npos) return found;
  fail(EINVAL);
  return {};
}

std::string_view Arguments::new_name() {
  const std::string_view found = name();
  if (found != "." && found != "..") return found;
  fail(EINVAL);
  return {};
}

std::span<const std::byte> Arguments::data(size_t bytes) {
  if (bytes_.size() < bytes) {
    fail(EINVAL);
    return {};
  }
  const auto taken = bytes_.first(bytes);
  bytes_ = bytes_.subspan(bytes);
  return taken;
}

}  // namespace kintsugi::mount
