#include "common/posix/names.h"

namespace kintsugi::posix {

Status check_name(std::string_view name) {
  if (name.size() > kMaxNameBytes) return {Code::kNameTooLong, "is too long for a name"};
  const bool has_separator = name.find_first_of(std::string_view("/\0", 2)) != name.npos;
  if (name.empty() || name == "." || name == ".." || has_separator)
    return {Code::kInvalidArgument, "is no name"};
  return {};
}

Status check_target(std::string_view target) {
  if (target.empty()) return {Code::kNotFound, "the target is empty"};
  if (target.size() > kMaxPathBytes) return {Code::kNameTooLong, "the target is too long"};
  return {};
}

}  // namespace kintsugi::posix
