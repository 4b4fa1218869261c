#include "common/base/version.h"

namespace kintsugi {

std::string_view program_version() {
  return KINTSUGI_VERSION;
}

}  // namespace kintsugi
