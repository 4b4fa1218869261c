/// Places in the code as people read them.
#pragma once

#include <string>

namespace kintsugi::sight {

/// "src/file.cc", "Class::function" of a place in the code, without what surrounds the names.
std::string short_file(const char* file);
std::string short_function(const char* function);

}  // namespace kintsugi::sight
