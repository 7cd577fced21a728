# Gives the targets esker::esker and esker::esker_static.

get_filename_component(_esker_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET esker::esker)
  add_library(esker::esker SHARED IMPORTED)
  set_target_properties(esker::esker PROPERTIES
    IMPORTED_LOCATION "${_esker_prefix}/lib/libesker.so"
    IMPORTED_SONAME "@SONAME@"
    INTERFACE_INCLUDE_DIRECTORIES "${_esker_prefix}/include")
endif()

if(NOT TARGET esker::esker_static)
  find_package(Threads REQUIRED)
  add_library(esker::esker_static STATIC IMPORTED)
  set_target_properties(esker::esker_static PROPERTIES
    IMPORTED_LOCATION "${_esker_prefix}/lib/libesker.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_esker_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;dl;m;gcc_s")
endif()
