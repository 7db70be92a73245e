import { Service, serve } from './service.mjs';
serve(new Service());
